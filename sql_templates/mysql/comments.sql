-- One row per comment of a table: the column, or '' for the table itself, and its comment.
SELECT COLUMN_NAME, COLUMN_COMMENT
FROM information_schema.COLUMNS
WHERE TABLE_NAME = ${table} AND TABLE_SCHEMA = ${schema} AND COLUMN_COMMENT <> ''
UNION ALL
SELECT '', TABLE_COMMENT
FROM information_schema.TABLES
WHERE TABLE_NAME = ${table} AND TABLE_SCHEMA = ${schema} AND TABLE_COMMENT <> '' AND TABLE_TYPE <> 'VIEW'
