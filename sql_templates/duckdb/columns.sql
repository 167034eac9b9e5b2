-- One row per column of a table: schema, table, column, native type, whether it may be NULL, and how many rows there are;
-- in the table's order.
SELECT schema_name, table_name, column_name, data_type, is_nullable, COUNT(*) OVER ()
FROM duckdb_columns()
WHERE database_name = current_database()
  AND lower(table_name) = lower(${table})
  AND (schema_name = ${schema} OR (${schema} IS NULL AND schema_name = current_schema()))
ORDER BY schema_name, table_name, column_index
