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
