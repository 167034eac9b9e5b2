SELECT to_regproc('aurora_replica_status') IS NOT NULL
