-- Deletes rows that are copied again.
DELETE FROM ${table}
WHERE ${where}
