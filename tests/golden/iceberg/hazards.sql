SELECT 'view' AS kind, view_name AS name, NULL AS field
FROM duckdb_views()
WHERE database_name = current_database() AND schema_name = 'shop' AND view_name = 'orders'
UNION ALL
SELECT CASE WHEN column_default IS NULL THEN 'required' ELSE 'default' END, column_name, NULL
FROM duckdb_columns()
WHERE database_name = current_database()
  AND schema_name = 'shop'
  AND table_name = 'orders'
  AND (NOT is_nullable OR column_default IS NOT NULL)
UNION ALL
SELECT 'unique', constraint_name, unnest(constraint_column_names)
FROM duckdb_constraints()
WHERE database_name = current_database()
  AND schema_name = 'shop'
  AND table_name = 'orders'
  AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
UNION ALL
SELECT 'unique', index_name, unnest(CAST(expressions AS VARCHAR[]))
FROM duckdb_indexes()
WHERE database_name = current_database() AND schema_name = 'shop' AND table_name = 'orders' AND is_unique
