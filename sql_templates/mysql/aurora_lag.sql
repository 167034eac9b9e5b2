-- One row: how many seconds an Aurora reader is behind its writer; 0 on the writer, NULL while the cluster knows no such reader.
-- https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/AuroraMySQL.Reference.ISTables.html
SELECT MAX(CASE WHEN session_id = 'MASTER_SESSION_ID' THEN 0 ELSE replica_lag_in_milliseconds / 1000.0 END)
FROM information_schema.replica_host_status
WHERE server_id = @@aurora_server_id
