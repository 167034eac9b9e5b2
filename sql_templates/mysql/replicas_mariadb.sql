-- One row per connection that this server replicates from, with Seconds_Behind_Master; no row on a server that replicates nothing.
SHOW ALL SLAVES STATUS
