-- One row, or none if there are no rows: rows that lie in no stretch of the key. They are counted, and not hashed.
SELECT
  0 AS ${p}partition_id,
  COUNT(*) AS ${p}row_count,
  0 AS ${p}hashed,
  ${least} AS ${p}key_min,
  ${greatest} AS ${p}key_max,
  ${words}
FROM ${table}
WHERE ${where}
HAVING COUNT(*) > 0
