-- One row per partition: its id, its rows, its least and greatest key, and the measures of each column:
-- how many NULLs; the sum, least and greatest of numbers; the least and greatest of dates and times; the characters of text.
SELECT
  m.partition_id,
  m.row_count,
  m.key_min,
  m.key_max,
  ${measures}${console}
FROM (
  SELECT
    partition_id,
    COUNT(*) AS row_count,
    ${least} AS key_min,
    ${greatest} AS key_max,
    ${folded}
  FROM (
    SELECT
      ${partition} AS partition_id,
      ${key}
      ${columns}
    FROM ${table}
    WHERE ${where}
  ) read_rows
  GROUP BY partition_id
) m
ORDER BY m.partition_id
