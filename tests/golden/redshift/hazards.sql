SELECT 'view' AS kind, table_name AS name, '' AS field
FROM svv_tables
WHERE table_schema = 'shop' AND table_name = 'orders' AND table_type <> 'BASE TABLE'
UNION ALL
SELECT
  CASE WHEN column_default IS NULL THEN 'required' WHEN column_default LIKE '%identity%' THEN 'identity' ELSE 'default' END,
  column_name,
  ''
FROM svv_columns
WHERE table_schema = 'shop' AND table_name = 'orders' AND (column_default IS NOT NULL OR UPPER(is_nullable) = 'NO')
