-- One row per partition: its id, its rows, its least and greatest key, and the measures of each column:
-- how many NULLs; the sum, least and greatest of numbers; the least and greatest of dates and times; the characters of text.
SELECT
  ${p}m.${p}partition_id AS partition_id,
  ${p}m.${p}row_count AS row_count,
  ${p}m.${p}key_min AS key_min,
  ${p}m.${p}key_max AS key_max,
  ${measures}${console}
FROM (
  SELECT
    ${p}read_rows.${p}partition_id AS ${p}partition_id,
    COUNT(*) AS ${p}row_count,
    ${least} AS ${p}key_min,
    ${greatest} AS ${p}key_max,
    ${folded}
  FROM (
    SELECT
      ${partition} AS ${p}partition_id,
      ${key}
      ${columns}
    FROM ${table}
    WHERE ${where}
  ) ${p}read_rows
  GROUP BY ${p}read_rows.${p}partition_id
) ${p}m
ORDER BY ${p}m.${p}partition_id
