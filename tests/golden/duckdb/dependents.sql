SELECT 'child' AS kind, table_name AS name
FROM duckdb_constraints()
WHERE database_name = current_database()
  AND constraint_type = 'FOREIGN KEY'
  AND schema_name = 'shop'
  AND referenced_table = 'orders'
