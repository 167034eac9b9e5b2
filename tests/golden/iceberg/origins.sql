SELECT 'unknown', '', 'view'
FROM duckdb_views()
WHERE database_name = current_database() AND schema_name = 'shop' AND view_name = 'orders'
