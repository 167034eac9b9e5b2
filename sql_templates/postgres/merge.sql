-- name: merge_stage_lock
-- Locks a staging table against every other attempt until the transaction ends.
LOCK TABLE ${stage} IN ACCESS EXCLUSIVE MODE

-- name: merge_update
-- Updates the target's rows to which their last change gives other values.
UPDATE ${target} AS merged
SET ${values}
FROM ${last} AS changed
WHERE changed.auditor_op = 'i' AND ${matching} AND ${differing}

-- name: merge_at_once
-- Updates the target's rows to which their last change gives other values, deletes those that are gone, and inserts those that are missing.
-- From PostgreSQL 15. https://www.postgresql.org/docs/current/sql-merge.html
MERGE INTO ${target} AS merged
USING ${last} AS changed
ON ${matching}
WHEN MATCHED AND changed.auditor_op = 'd' THEN
  DELETE
WHEN MATCHED AND changed.auditor_op = 'i' AND ${differing} THEN
  UPDATE SET ${values}
WHEN NOT MATCHED AND changed.auditor_op = 'i' THEN
  INSERT (${columns}) VALUES (${inserted})
