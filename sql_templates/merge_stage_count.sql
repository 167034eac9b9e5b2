-- One row: how many changes an attempt loaded.
SELECT COUNT(*)
FROM ${stage}
WHERE auditor_attempt = ${attempt}
