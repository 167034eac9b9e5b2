-- One row per bucket of a column's values that holds any: its number, from 0 on in the order of the values, and its rows.
SELECT
  ${p}bucketed_rows.${p}bucket AS bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT ${bucket} AS ${p}bucket
  FROM (
    SELECT ${value} AS ${p}v
    FROM ${table}
    WHERE ${where}
  ) ${p}valued_rows
  WHERE ${p}valued_rows.${p}v IS NOT NULL
) ${p}bucketed_rows
GROUP BY ${p}bucketed_rows.${p}bucket
ORDER BY ${p}bucketed_rows.${p}bucket
