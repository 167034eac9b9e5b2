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

-- name: pipeline_listed
-- One row per row of statements that are joined by UNION ALL, and how many rows there are.
SELECT listed.*, COUNT(*) OVER ()
FROM (
${statements}
) AS listed

-- name: pipeline_table
-- One row if a table has rows of its own, as those that pipeline_tables lists: a number, its database, its name, and whether it is
-- system-versioned.
SELECT ${number} AS number, TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE = 'SYSTEM VERSIONED' AS is_versioned
FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}

-- name: pipeline_columns
-- One row per column of a table: a number, its database, its name; the column's place, name, native type, whether it may be NULL, and
-- whether it is the end of a row's period, with which MariaDB completes the key of a system-versioned table for the rows of its history.
SELECT
  ${number} AS number,
  TABLE_SCHEMA,
  TABLE_NAME,
  ORDINAL_POSITION,
  COLUMN_NAME,
  COLUMN_TYPE,
  IS_NULLABLE = 'YES' AS is_nullable,
  COALESCE(GENERATION_EXPRESSION, '') = 'ROW END' AS is_end
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}

-- name: pipeline_keys
-- One row per column of a table's primary key: a number, its database, its name; the column's place in the key, and its name.
SELECT ${number} AS number, TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX, COLUMN_NAME
FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND INDEX_NAME = 'PRIMARY'

-- name: pipeline_tables
-- One row per table with rows, in every database of the server: its database, its name, whether it is system-versioned, and how many rows
-- there are. Views have no rows of their own, and what a sequence holds is no row.
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE = 'SYSTEM VERSIONED', COUNT(*) OVER ()
FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY TABLE_SCHEMA, TABLE_NAME
