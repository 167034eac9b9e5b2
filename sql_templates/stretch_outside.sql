-- One row, or none if there are no rows: rows that lie in no stretch of the key. They are counted, and not hashed.
SELECT
  0 AS partition_id,
  COUNT(*) AS row_count,
  0 AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words}
FROM ${table}
WHERE ${where}
HAVING COUNT(*) > 0
