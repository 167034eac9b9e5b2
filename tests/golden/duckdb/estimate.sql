SELECT table_name, estimated_size
FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = 'shop' AND table_name IN ('orders')
