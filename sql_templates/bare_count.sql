-- One row: the rows of a table, and of these how many meet a condition, how many do not, and of how many that is unknown.
SELECT
  COUNT(*),
  COUNT(CASE WHEN ${condition} THEN 1 END),
  COUNT(CASE WHEN NOT (${condition}) THEN 1 END),
  COUNT(CASE WHEN ${condition} THEN NULL WHEN NOT (${condition}) THEN NULL ELSE 1 END)
FROM ${table}
WHERE ${within}
