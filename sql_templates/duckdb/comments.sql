-- One row per comment of a table: the column, or '' for the table itself, and its comment.
SELECT column_name, comment
FROM duckdb_columns()
WHERE database_name = current_database() AND table_name = ${table} AND schema_name = ${schema} AND comment IS NOT NULL
UNION ALL
SELECT '', comment
FROM duckdb_tables()
WHERE database_name = current_database() AND table_name = ${table} AND schema_name = ${schema} AND comment IS NOT NULL
