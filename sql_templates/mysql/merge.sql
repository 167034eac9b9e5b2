-- name: merge_target_create
-- Creates a target table with the columns and key of its source.
CREATE TABLE ${target} (
  ${columns},
  PRIMARY KEY (${key})
) ENGINE = InnoDB
${clauses}

-- name: merge_stage_create
-- Creates a staging table: the target's columns, which by the outer join may be NULL, and before them, of each change, the attempt that
-- loaded it, its position and row in the stream, and its operation: i for a row as it is after the change, d for the key of a row that is
-- gone.
CREATE ${kind} ${stage} (
  auditor_attempt ${text},
  auditor_position ${integer},
  auditor_row ${integer},
  auditor_op ${text}
) ENGINE = InnoDB AS
SELECT
  NULL AS auditor_attempt,
  NULL AS auditor_position,
  NULL AS auditor_row,
  NULL AS auditor_op,
  ${columns}
FROM (SELECT 1 AS auditor_one) AS nothing
LEFT JOIN ${target} ON 1 = 0
WHERE 1 = 0

-- name: merge_stage_clear
-- Empties the staging table; TRUNCATE would commit what was merged.
DELETE FROM ${stage}

-- name: merge_stage_drop
-- Drops a staging table, with what a failed attempt left in it.
DROP TEMPORARY TABLE IF EXISTS ${stage}

-- name: merge_last_create
-- Creates a temporary table of the last change of each key that an attempt loaded.
CREATE TEMPORARY TABLE ${last} ENGINE = InnoDB AS
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

-- name: merge_delete
-- Deletes the target's rows whose keys were changed. STRAIGHT_JOIN looks each key up in the target, whose rows are not all read.
DELETE merged
FROM ${last} AS changed
STRAIGHT_JOIN ${target} AS merged ON ${matching}

-- name: merge_update
-- Updates the target's rows to which their last change gives other values.
UPDATE ${last} AS changed
STRAIGHT_JOIN ${target} AS merged ON ${matching}
SET ${values}
WHERE changed.auditor_op = 'i' AND ${differing}

-- name: merge_last_drop
-- Drops the table of last changes once they are merged.
DROP TEMPORARY TABLE ${last}

-- name: merge_bounds_delete
-- Deletes the target's rows whose keys lie in an interval. MariaDB gives the table of a DELETE another name only in this form.
DELETE merged
FROM ${target} AS merged
WHERE ${interval}
