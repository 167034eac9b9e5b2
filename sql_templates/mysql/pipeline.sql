-- name: pipeline_settings
-- One row per setting of the server on which reading its binary log depends: its name and value.
SHOW GLOBAL VARIABLES
WHERE Variable_name IN (
  'log_bin', 'binlog_format', 'binlog_row_image', 'binlog_row_metadata', 'binlog_row_value_options', 'binlog_expire_logs_seconds',
  'server_id', 'binlog_storage_engine', 'sql_mode'
)

-- name: grants
-- One row per grant of the session's user, as the statement that made it.
SHOW GRANTS

-- name: pipeline_table
-- One row if a table has rows of its own, as those that pipeline_tables lists: its name, and how many rows there are.
SELECT TABLE_NAME, COUNT(*) OVER ()
FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}

-- name: pipeline_tables
-- One row per table with rows, in every database of the server: its database, its name, whether it is system-versioned, and how many rows
-- there are. Views have no rows of their own, and what a sequence holds is no row.
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE = 'SYSTEM VERSIONED', COUNT(*) OVER ()
FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY TABLE_SCHEMA, TABLE_NAME
