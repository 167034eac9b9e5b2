-- One row: the replication delay in seconds; 0 on a server that is no replica, NULL on a replica that has not replayed a transaction yet.
-- A replica that has replayed everything it received is up to date only while it is connected to its source: an old last transaction
-- means either an idle source or a lost connection.
SELECT
  CASE
    WHEN NOT pg_is_in_recovery() THEN 0
    WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() AND EXISTS (SELECT 1 FROM pg_catalog.pg_stat_wal_receiver) THEN 0
    ELSE EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp())
  END
