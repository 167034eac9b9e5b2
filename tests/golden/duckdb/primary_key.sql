SELECT table_name, part, COUNT(*) OVER ()
FROM (
  SELECT table_name, unnest(constraint_column_names) AS part, generate_subscripts(constraint_column_names, 1) AS place
  FROM duckdb_constraints()
  WHERE database_name = current_database()
    AND schema_name = 'shop'
    AND table_name IN ('orders')
    AND constraint_type = 'PRIMARY KEY'
) AS parts
ORDER BY table_name, place
