-- Inserts the rows whose last change did not delete them.
INSERT INTO ${target} (${columns})
SELECT ${columns}
FROM ${last}
WHERE auditor_op = 'i'
