-- One row per class of a column, the most frequent first: its canonical text (NULL: the rows without a value), its rows, and how
-- many classes there are in all.
SELECT
  ${text} AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT ${class} AS c
  FROM ${table}
  WHERE ${where}
) classed_rows
WHERE ${which}
GROUP BY c
ORDER BY class_rows DESC, c
LIMIT ${most}
