-- name: active_sessions
-- One row: the number of client sessions that run a statement, without the auditor's own, and whether this user may see the activity
-- of other users' sessions.
SELECT COUNT(*), pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
FROM pg_catalog.pg_stat_activity
WHERE state = 'active'
  AND backend_type = 'client backend'
  AND application_name <> 'auditor'
  AND pid <> pg_backend_pid()

-- name: lag
-- One row: the replication delay in seconds; 0 on a server that is no replica, NULL on a replica that has not replayed a transaction yet.
-- A replica that has replayed everything it received is up to date only while it is connected to its source: an old last transaction
-- means either an idle source or a lost connection.
SELECT
  CASE
    WHEN NOT pg_is_in_recovery() THEN 0
    WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() AND EXISTS (SELECT 1 FROM pg_catalog.pg_stat_wal_receiver) THEN 0
    ELSE EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp())
  END

-- name: aurora
-- One row: whether the server is Amazon Aurora, whose readers share the writer's storage instead of replaying its log.
SELECT to_regproc('aurora_replica_status') IS NOT NULL

-- name: aurora_lag
-- One row: how many seconds an Aurora reader is behind its writer; 0 on the writer, NULL while the cluster knows no such reader.
-- https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/aurora_replica_status.html
SELECT MAX(CASE WHEN session_id = 'MASTER_SESSION_ID' THEN 0 ELSE replica_lag_in_msec / 1000.0 END)
FROM aurora_replica_status()
WHERE server_id = aurora_db_instance_identifier()
