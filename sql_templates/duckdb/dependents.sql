-- One row per thing that hangs on a table: its kind and its name.
SELECT 'child' AS kind, table_name AS name
FROM duckdb_constraints()
WHERE database_name = current_database()
  AND constraint_type = 'FOREIGN KEY'
  AND schema_name = ${schema}
  AND referenced_table = ${table}
