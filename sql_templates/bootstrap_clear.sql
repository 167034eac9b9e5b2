-- Deletes rows that are copied anew.
DELETE FROM ${table}
WHERE ${where}
