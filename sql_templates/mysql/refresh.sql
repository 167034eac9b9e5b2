-- name: refresh_server
-- One row: whether the server takes no writes, whether this session writes into its binary log, the engine for refresh tables.
SELECT
  @@GLOBAL.read_only,
  @@SESSION.sql_log_bin,
  (SELECT ENGINE FROM information_schema.ENGINES WHERE ENGINE = 'BLACKHOLE' AND SUPPORT IN ('YES', 'DEFAULT'))

-- name: refresh_schema
-- Creates the schema in which refreshes of pipelines write on the source.
CREATE DATABASE IF NOT EXISTS ${schema}

-- name: refresh_chunks_create
-- Creates the table that says which chunk a transaction of a refresh is, and how far each refresh has come.
CREATE TABLE IF NOT EXISTS ${chunks} (
  refresh VARCHAR(64) NOT NULL,
  pipeline VARCHAR(255) NOT NULL,
  attempt VARCHAR(64) NOT NULL,
  number BIGINT NOT NULL,
  body LONGTEXT NOT NULL,
  PRIMARY KEY (refresh)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin

-- name: refresh_claim
-- Gives refreshes to one attempt: it waits for a chunk that another is writing, after which that one can write no more.
INSERT INTO ${chunks} (refresh, pipeline, attempt, number, body)
VALUES ${rows}
ON DUPLICATE KEY UPDATE attempt = ${attempt}

-- name: refresh_state
-- One row per refresh: its name, and its last chunk.
SELECT refresh, body
FROM ${chunks}
WHERE refresh IN (${refreshes})

-- name: refresh_columns
-- One row per column of a table: a number, the column's place, name, type, character set, collation, whether it may be NULL.
SELECT
  ${number} AS number,
  ORDINAL_POSITION,
  COLUMN_NAME,
  COLUMN_TYPE,
  CHARACTER_SET_NAME,
  COLLATION_NAME,
  IS_NULLABLE = 'YES' AS is_nullable
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}

-- name: refresh_drop
-- Drops a refresh table whose columns are no longer those of its table.
DROP TABLE IF EXISTS ${refresh_table}

-- name: refresh_table_create
-- Creates a refresh table: the columns of a table of the source, without its key and defaults.
CREATE TABLE ${refresh_table} (
  ${columns}
) ENGINE=${engine}

-- name: refresh_clear
-- Empties a refresh table that holds its rows.
TRUNCATE TABLE ${refresh_table}

-- name: refresh_end_of_chunk
-- One row: the key of the last row of the next chunk; none if fewer rows are left.
SELECT ${texts}
FROM ${table} FORCE INDEX (PRIMARY)
WHERE ${condition}
ORDER BY ${key}
LIMIT 1 OFFSET ${offset}

-- name: refresh_few
-- One row: a number, and how many rows are left of a range, or that there are so many at least.
SELECT ${number} AS number, COUNT(*) AS few
FROM (
  SELECT 1
  FROM ${table} FORCE INDEX (PRIMARY)
  WHERE ${condition}
  LIMIT ${most}
) AS counted

-- name: refresh_chunk
-- Stores which chunk the transaction is; changes no row if another attempt has the refresh.
UPDATE ${chunks}
SET number = ${number}, body = ${body}
WHERE refresh = ${refresh} AND attempt = ${attempt} AND number = ${known}

-- name: refresh_texts
-- One row per row of a chunk: its values as the pipeline writes them; others cannot change the rows until the transaction ends.
SELECT ${texts}
FROM ${table} FORCE INDEX (PRIMARY)
WHERE ${condition}
LOCK IN SHARE MODE

-- name: refresh_rows
-- Copies rows of the source; others cannot change them until the transaction ends.
INSERT INTO ${refresh_table} (${columns})
SELECT ${columns}
FROM ${table} FORCE INDEX (PRIMARY)
WHERE ${condition}
LOCK IN SHARE MODE

-- name: refresh_empty_row
-- Writes a row without values, so that the log names the columns also where no row of the source follows.
INSERT INTO ${refresh_table} () VALUES ()

-- name: refresh_end
-- Deletes the state of refreshes.
DELETE known FROM ${chunks} AS known FORCE INDEX (PRIMARY)
WHERE known.refresh IN (${refreshes})
