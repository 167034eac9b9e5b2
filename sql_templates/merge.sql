-- name: merge_positions_create
-- Creates the table of a target that says up to which position it holds each table of a pipeline.
CREATE TABLE IF NOT EXISTS ${positions} (
  pipeline ${name} NOT NULL,
  table_name ${name} NOT NULL,
  position ${integer} NOT NULL,
  schema_id ${text} NOT NULL,
  merged_at ${timestamp} NOT NULL,
  PRIMARY KEY (pipeline, table_name)
)

-- name: merge_positions
-- One row per table of a pipeline: its name, the position up to which the target holds it, and the schema it had there.
SELECT table_name, position, schema_id
FROM ${positions}
WHERE pipeline = ${pipeline}

-- name: merge_position
-- One row at most, that of one table of a pipeline, as of merge_positions.
SELECT table_name, position, schema_id
FROM ${positions}
WHERE pipeline = ${pipeline} AND table_name = ${table}

-- name: merge_positions_others
-- One row per table that another pipeline fills in this schema: the pipeline, and the table's name in its source.
SELECT pipeline, table_name
FROM ${positions}
WHERE pipeline <> ${pipeline}

-- name: merge_positions_delete
-- Deletes the positions of tables before their new ones are written.
DELETE FROM ${positions}
WHERE pipeline = ${pipeline} AND table_name IN (${tables})

-- name: merge_positions_insert
-- Stores the positions up to which the target holds tables.
INSERT INTO ${positions} (pipeline, table_name, position, schema_id, merged_at)
VALUES
  ${rows}

-- name: merge_target_create
-- Creates a target table with the columns and key of its source.
CREATE TABLE ${target} (
  ${columns},
  PRIMARY KEY (${key})
)
${clauses}

-- name: merge_target_any
-- One row if the target's table has any.
SELECT 1
FROM ${target}
LIMIT 1

-- name: merge_target_clear
-- Deletes all rows of a target's table, as the source did.
DELETE FROM ${target}

-- name: merge_stage_create
-- Creates a staging table: the target's columns, and before them, of each change, the attempt that loaded it, its position and row in the
-- stream, and its operation: i for a row as it is after the change, d for the key of a row that is gone, l and h for the lower and upper
-- end of a key interval whose rows are replaced.
CREATE ${kind} ${stage} AS
SELECT
  CAST('' AS ${text}) AS auditor_attempt,
  CAST(0 AS ${integer}) AS auditor_position,
  CAST(0 AS ${integer}) AS auditor_row,
  CAST('' AS ${text}) AS auditor_op,
  ${columns}
FROM ${target}
WHERE 1 = 0

-- name: merge_stage_count
-- One row: how many changes an attempt loaded, and how many intervals of keys.
SELECT
  COUNT(*),
  COALESCE(SUM(CASE WHEN auditor_op = 'l' THEN 1 ELSE 0 END), 0)
FROM ${stage}
WHERE auditor_attempt = ${attempt}

-- name: merge_stage_clear
-- Empties a staging table.
TRUNCATE TABLE ${stage}

-- name: merge_stage_empty
-- Empties a staging table of a few rows, which costs less than to truncate it.
DELETE FROM ${stage}

-- name: merge_stage_drop
-- Drops a staging table, with what a failed attempt left in it.
DROP TABLE IF EXISTS ${stage}

-- name: merge_bounds
-- One row per end of a key interval that an attempt loaded: its position and row in the stream, l for the lower end or h for the upper, and
-- the texts of the key's columns, NULL where it has no more.
SELECT
  auditor_position,
  auditor_row,
  auditor_op,
  ${key}
FROM ${stage}
WHERE auditor_attempt = ${attempt} AND auditor_op IN ('l', 'h')

-- name: merge_bounds_delete
-- Deletes the target's rows whose keys lie in one of some intervals.
DELETE FROM ${target} AS merged
WHERE ${interval}

-- name: merge_last_create
-- Creates a temporary table of the last change of each key that an attempt loaded.
CREATE TEMPORARY TABLE ${last} AS
SELECT *
FROM (
  SELECT
    auditor_position,
    auditor_row,
    auditor_op,
    ${columns},
    ROW_NUMBER() OVER (PARTITION BY ${key} ORDER BY auditor_position DESC, auditor_row DESC) AS auditor_rank
  FROM ${stage}
  WHERE auditor_attempt = ${attempt} AND auditor_op IN ('i', 'd')
) AS ranked
WHERE auditor_rank = 1

-- name: merge_bounds_void
-- Turns changes of keys in an interval that come before it in the stream into deletions.
UPDATE ${last} AS changed
SET auditor_op = 'd'
WHERE changed.auditor_op = 'i' AND ${earlier}

-- name: merge_bounds_gone
-- Adds the deletion of each of the target's keys in some intervals, of which nothing else is merged, to the last changes.
INSERT INTO ${last} (auditor_position, auditor_row, auditor_op, ${key})
SELECT 0, 0, 'd', ${merged}
FROM ${target} AS merged
WHERE ${interval}
  AND NOT EXISTS (SELECT 1 FROM ${last} AS changed WHERE ${matching})

-- name: merge_delete
-- Deletes the target's rows whose keys were changed.
DELETE FROM ${target} AS merged
USING ${last} AS changed
WHERE ${matching}

-- name: merge_delete_keys
-- Deletes the target's rows whose keys were changed, which stand in the statement.
DELETE FROM ${target} AS merged
WHERE ${key} IN (${keys})

-- name: merge_insert
-- Inserts the rows whose last change did not delete them.
INSERT INTO ${target} (${columns})
SELECT ${columns}
FROM ${last}
WHERE auditor_op = 'i'

-- name: merge_insert_new
-- Inserts the rows whose last change did not delete them, and that are missing in the target.
INSERT INTO ${target} (${columns})
SELECT ${columns}
FROM ${last} AS changed
WHERE
  changed.auditor_op = 'i'
  AND NOT EXISTS (SELECT 1 FROM ${target} AS merged WHERE ${matching})

-- name: merge_last_drop
-- Drops the table of last changes once they are merged.
DROP TABLE ${last}

-- name: merge_touched
-- One row per row of the target that has a key of the last changes, as it is now.
SELECT merged.*
FROM ${last} AS changed
JOIN ${target} AS merged ON ${matching}

-- name: merge_touched_gone
-- One row per row of the target, as it is now, whose key lies in an interval and has no last change.
SELECT merged.*
FROM ${target} AS merged
WHERE ${interval}
  AND NOT EXISTS (SELECT 1 FROM ${last} AS changed WHERE ${matching})
