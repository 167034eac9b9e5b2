-- One row per column of the primary key, in the key's order, and how many these are.
SELECT COLUMN_NAME, COUNT(*) OVER ()
FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND INDEX_NAME = 'PRIMARY'
ORDER BY SEQ_IN_INDEX
