-- name: threads_running
-- One row: the name of the status variable, and the number of threads that are not sleeping, including this session's own.
SHOW GLOBAL STATUS LIKE 'Threads_running'

-- name: replicas
-- One row per channel that this server replicates from, with Seconds_Behind_Source; no row on a server that replicates nothing.
SHOW REPLICA STATUS

-- name: replicas_mariadb
-- One row per connection that this server replicates from, with Seconds_Behind_Master; no row on a server that replicates nothing.
SHOW ALL SLAVES STATUS

-- name: aurora
-- One row on Amazon Aurora, whose readers share the writer's storage instead of replaying its log: a name, and this instance's. Else none.
SHOW GLOBAL VARIABLES LIKE 'aurora_server_id'

-- name: aurora_lag
-- One row: how many seconds an Aurora reader is behind its writer; 0 on the writer, NULL while the cluster knows no such reader.
-- https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/AuroraMySQL.Reference.ISTables.html
SELECT MAX(CASE WHEN session_id = 'MASTER_SESSION_ID' THEN 0 ELSE replica_lag_in_milliseconds / 1000.0 END)
FROM information_schema.replica_host_status
WHERE server_id = @@aurora_server_id
