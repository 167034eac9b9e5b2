-- One row: how many changes an attempt loaded, and how many intervals of keys.
SELECT
  COUNT(*),
  COALESCE(SUM(CASE WHEN auditor_op = 'l' THEN 1 ELSE 0 END), 0)
FROM ${stage}
WHERE auditor_attempt = ${attempt}
