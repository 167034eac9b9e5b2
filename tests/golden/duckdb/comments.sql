SELECT column_name, comment
FROM duckdb_columns()
WHERE database_name = current_database() AND table_name = 'orders' AND schema_name = 'shop' AND comment IS NOT NULL
UNION ALL
SELECT '', comment
FROM duckdb_tables()
WHERE database_name = current_database() AND table_name = 'orders' AND schema_name = 'shop' AND comment IS NOT NULL
