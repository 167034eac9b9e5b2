-- One row: the least and the greatest key.
SELECT
  MIN(${key}) AS key_min,
  MAX(${key}) AS key_max
FROM ${table}
WHERE ${where}
