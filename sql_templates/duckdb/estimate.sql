-- One row: the engine's own estimate of how many rows there are, NULL where it has none.
SELECT estimated_size
FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = ${schema} AND table_name = ${table}
