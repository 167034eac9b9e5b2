-- Inserts the rows whose last change did not delete them, and that are missing in the target.
INSERT INTO ${target} (${columns})
SELECT ${columns}
FROM ${last} AS changed
WHERE
  changed.auditor_op = 'i'
  AND NOT EXISTS (SELECT 1 FROM ${target} AS merged WHERE ${matching})
