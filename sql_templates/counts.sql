-- One row per partition: its id, its rows, its least and greatest key, and the measures of each column:
-- how many NULLs; the sum, least and greatest of numbers; the least and greatest of dates and times; the characters of text.
SELECT
  partition_id,
  COUNT(*) AS row_count,
  MIN(k) AS key_min,
  MAX(k) AS key_max,
  ${measures}${console}
FROM (
  SELECT
    ${partition} AS partition_id,
    ${key} AS k,
    ${columns}${fence_column}
  FROM ${table}
  WHERE ${where}
  ${fence}
) measured_rows
GROUP BY partition_id
ORDER BY partition_id
