-- One row per column of a table: schema, table, column, native type, whether it may be NULL; in the table's order.
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'YES'
FROM information_schema.COLUMNS
WHERE LOWER(TABLE_NAME) = LOWER(${table}) AND (TABLE_SCHEMA = ${schema} OR (${schema} IS NULL AND TABLE_SCHEMA = DATABASE()))
ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
