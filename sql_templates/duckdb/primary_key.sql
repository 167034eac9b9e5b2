-- One row per column of the primary key, in the key's order, and how many these are.
SELECT unnest(constraint_column_names), len(constraint_column_names)
FROM duckdb_constraints()
WHERE database_name = current_database()
  AND schema_name = ${schema}
  AND table_name = ${table}
  AND constraint_type = 'PRIMARY KEY'
