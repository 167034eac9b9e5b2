-- name: merge_stage_clear
-- Drops the staging table, because TRUNCATE would commit what was merged.
DROP TABLE ${stage}

-- name: merge_shared_create
-- Creates the session's staging table of texts, into which one COPY loads changes of many tables.
CREATE TEMPORARY TABLE ${stage} (
  ${columns}
)

-- name: merge_shared_count
-- One row per table of which changes were loaded: its number, and how many they are.
SELECT auditor_table, COUNT(*)
FROM ${stage}
GROUP BY auditor_table

-- name: merge_shared_delete
-- Deletes the target's rows whose keys were changed, of one table.
DELETE FROM ${target}
USING ${stage}
WHERE ${stage}.auditor_table = ${number} AND ${matching}

-- name: merge_shared_insert
-- Inserts the rows of one table whose last change did not delete them.
INSERT INTO ${target} (${columns})
SELECT ${values}
FROM ${stage}
WHERE ${stage}.auditor_table = ${number} AND ${stage}.auditor_op = 'i'

-- name: merge_shared_drop
-- Drops the staging table of texts once all its tables are merged.
DROP TABLE ${stage}

-- name: merge_delete
-- Deletes the target's rows whose keys were changed.
DELETE FROM ${target}
USING ${last}
WHERE ${matching}

-- name: merge_bounds_void
-- Turns changes of keys in an interval that come before it in the stream into deletions.
UPDATE ${last}
SET auditor_op = 'd'
WHERE auditor_op = 'i' AND ${earlier}

-- name: merge_bounds_delete
-- Deletes the target's rows whose keys lie in one of some intervals.
DELETE FROM ${target}
WHERE ${interval}
