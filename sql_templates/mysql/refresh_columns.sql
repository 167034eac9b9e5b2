-- One row per column of a table: name, type, character set, collation, whether it may be NULL; in the table's order.
SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE = 'YES'
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}
ORDER BY ORDINAL_POSITION
