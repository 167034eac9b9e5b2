-- One row: seconds that a replica is behind, 0 on a server that is none; NULL on one that has replayed no transaction yet.
-- What was received and is replayed is up to date only while something is being received: the last transaction may be old
-- because the source is idle, or because the source is gone.
SELECT
  CASE
    WHEN NOT pg_is_in_recovery() THEN 0
    WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() AND EXISTS (SELECT 1 FROM pg_catalog.pg_stat_wal_receiver) THEN 0
    ELSE EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp())
  END
