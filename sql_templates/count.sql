-- One row: how many rows there are.
SELECT COUNT(*) AS row_count
FROM ${table}
WHERE ${where}
