SELECT unnest(constraint_column_names), len(constraint_column_names)
FROM duckdb_constraints()
WHERE database_name = current_database()
  AND schema_name = 'shop'
  AND table_name = 'orders'
  AND constraint_type = 'PRIMARY KEY'
