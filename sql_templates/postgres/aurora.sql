-- One row: whether the server is Amazon Aurora, whose readers share the writer's storage instead of replaying its log.
SELECT to_regproc('aurora_replica_status') IS NOT NULL
