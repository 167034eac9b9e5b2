-- One row per column of a table: schema, table, column, native type (with a character set other than utf8mb4), whether it may be NULL, and
-- its collation unless under that only texts of the same characters are equal; and how many rows there are; in the
-- table's order.
SELECT
  TABLE_SCHEMA,
  TABLE_NAME,
  COLUMN_NAME,
  CONCAT(COLUMN_TYPE, CASE WHEN CHARACTER_SET_NAME <> 'utf8mb4' THEN CONCAT(' character set ', CHARACTER_SET_NAME) ELSE '' END),
  IS_NULLABLE = 'YES',
  CASE WHEN COLLATION_NAME LIKE '%0900_bin' OR COLLATION_NAME LIKE '%nopad_bin' THEN NULL ELSE COLLATION_NAME END,
  COUNT(*) OVER ()
FROM information_schema.COLUMNS
WHERE LOWER(TABLE_NAME) = LOWER(${table}) AND (TABLE_SCHEMA = ${schema} OR (${schema} IS NULL AND TABLE_SCHEMA = DATABASE()))
ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
