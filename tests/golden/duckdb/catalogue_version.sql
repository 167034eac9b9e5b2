SELECT md5(string_agg(definition, ';' ORDER BY definition))
FROM (
  SELECT sql AS definition
  FROM duckdb_tables()
  WHERE database_name = current_database() AND schema_name = 'shop'
  UNION ALL
  SELECT sql
  FROM duckdb_indexes()
  WHERE database_name = current_database() AND schema_name = 'shop'
  UNION ALL
  SELECT view_name
  FROM duckdb_views()
  WHERE database_name = current_database() AND schema_name = 'shop'
) AS definitions
