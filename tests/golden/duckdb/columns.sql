SELECT schema_name, table_name, column_name, data_type, is_nullable, COUNT(*) OVER ()
FROM duckdb_columns()
WHERE database_name = current_database()
  AND lower(table_name) IN (LOWER('orders'))
  AND (schema_name = 'shop' OR ('shop' IS NULL AND schema_name = current_schema()))
ORDER BY schema_name, table_name, column_index
