-- One row: the least and the greatest key.
SELECT
  MIN(${key}),
  MAX(${key})
FROM ${table}
WHERE ${where}
