-- One row per channel that this server replicates from, with Seconds_Behind_Source; no row on a server that replicates nothing.
SHOW REPLICA STATUS
