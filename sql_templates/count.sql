-- One row: how many rows there are.
SELECT COUNT(*)
FROM ${table}
WHERE ${where}
