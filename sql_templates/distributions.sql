-- name: classes
-- One row per class of a column, the most frequent first: its canonical text (NULL: the rows without a value), its rows, and how
-- many classes there are in all.
SELECT
  ${text} AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT ${class} AS ${p}c
  FROM ${table}
  WHERE ${where}
) ${p}classed_rows
WHERE ${which}
GROUP BY ${p}classed_rows.${p}c
ORDER BY 2 DESC, ${p}classed_rows.${p}c
LIMIT ${most}

-- name: histogram_bounds
-- One row: the canonical texts of a column's least and greatest finite value, NULL where there is none.
SELECT
  ${least} AS least_text,
  ${greatest} AS greatest_text
FROM (
  SELECT
    MIN(${p}valued_rows.${p}v) AS ${p}least,
    MAX(${p}valued_rows.${p}v) AS ${p}greatest
  FROM (
    SELECT ${value} AS ${p}v
    FROM ${table}
    WHERE ${where}
  ) ${p}valued_rows
  WHERE ${within}
) ${p}b

-- name: histogram
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
