-- One row per table or view of the connection's database: schema, name, whether it is a view, whether its name is enough to find it,
-- and how many rows there are.
SELECT *, COUNT(*) OVER ()
FROM (
  SELECT schema_name, table_name, FALSE, schema_name = current_schema()
  FROM duckdb_tables()
  WHERE database_name = current_database()
  UNION ALL
  SELECT schema_name, view_name, TRUE, schema_name = current_schema()
  FROM duckdb_views()
  WHERE database_name = current_database() AND NOT internal
) AS listed
ORDER BY 1, 2
