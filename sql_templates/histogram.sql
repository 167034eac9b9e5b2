-- One row per bucket of a column's values that holds any: its number, from 0 on in the order of the values, and its rows.
SELECT
  bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT ${bucket} AS bucket
  FROM (
    SELECT ${value} AS v
    FROM ${table}
    WHERE ${where}
  ) valued_rows
  WHERE v IS NOT NULL
) bucketed_rows
GROUP BY bucket
ORDER BY bucket
