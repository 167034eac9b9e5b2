-- One row per column of the primary key, in the key's order.
SELECT COLUMN_NAME
FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND INDEX_NAME = 'PRIMARY'
ORDER BY SEQ_IN_INDEX
