-- One row where a table is a view, whose tables the catalogue does not name: 'unknown', an empty schema and why.
SELECT 'unknown', '', 'view'
FROM duckdb_views()
WHERE database_name = current_database() AND schema_name = ${schema} AND view_name = ${table}
