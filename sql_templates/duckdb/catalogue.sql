-- name: tables
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

-- name: columns
-- One row per column of the asked tables: schema, table, column, native type, whether it may be NULL, and how many rows there are;
-- in the table's order.
SELECT schema_name, table_name, column_name, data_type, is_nullable, COUNT(*) OVER ()
FROM duckdb_columns()
WHERE database_name = current_database()
  AND lower(table_name) IN (${folded})
  AND (schema_name = ${schema} OR (${schema} IS NULL AND schema_name = current_schema()))
ORDER BY schema_name, table_name, column_index

-- name: primary_key
-- One row per column of a primary key of the asked tables: table and column, in the key's order, and how many rows there are.
SELECT table_name, part, COUNT(*) OVER ()
FROM (
  SELECT table_name, unnest(constraint_column_names) AS part, generate_subscripts(constraint_column_names, 1) AS place
  FROM duckdb_constraints()
  WHERE database_name = current_database()
    AND schema_name = ${schema}
    AND table_name IN (${tables})
    AND constraint_type = 'PRIMARY KEY'
) AS parts
ORDER BY table_name, place

-- name: estimate
-- One row per asked table: its name, and the engine's own estimate of how many rows it has, NULL where it has none.
SELECT table_name, estimated_size
FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = ${schema} AND table_name IN (${tables})

-- name: comments
-- One row per comment of a table: the column, or '' for the table itself, and its comment.
SELECT column_name, comment
FROM duckdb_columns()
WHERE database_name = current_database() AND table_name = ${table} AND schema_name = ${schema} AND comment IS NOT NULL
UNION ALL
SELECT '', comment
FROM duckdb_tables()
WHERE database_name = current_database() AND table_name = ${table} AND schema_name = ${schema} AND comment IS NOT NULL

-- name: hazards
-- One row per property of a table that decides what a write does to it (Hazard in dialects lists the kinds): its kind, its name, and a
-- column of a unique constraint.
SELECT 'view' AS kind, view_name AS name, NULL AS field
FROM duckdb_views()
WHERE database_name = current_database() AND schema_name = ${schema} AND view_name = ${table}
UNION ALL
SELECT CASE WHEN column_default IS NULL THEN 'required' ELSE 'default' END, column_name, NULL
FROM duckdb_columns()
WHERE database_name = current_database()
  AND schema_name = ${schema}
  AND table_name = ${table}
  AND (NOT is_nullable OR column_default IS NOT NULL)
UNION ALL
SELECT 'unique', constraint_name, unnest(constraint_column_names)
FROM duckdb_constraints()
WHERE database_name = current_database()
  AND schema_name = ${schema}
  AND table_name = ${table}
  AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
UNION ALL
SELECT 'unique', index_name, unnest(CAST(expressions AS VARCHAR[]))
FROM duckdb_indexes()
WHERE database_name = current_database() AND schema_name = ${schema} AND table_name = ${table} AND is_unique

-- name: catalogue_version
-- One row: a text that is another once a table, a view or an index of a schema was made, altered or dropped.
SELECT md5(string_agg(definition, ';' ORDER BY definition))
FROM (
  SELECT sql AS definition
  FROM duckdb_tables()
  WHERE database_name = current_database() AND schema_name = ${schema}
  UNION ALL
  SELECT sql
  FROM duckdb_indexes()
  WHERE database_name = current_database() AND schema_name = ${schema}
  UNION ALL
  SELECT view_name
  FROM duckdb_views()
  WHERE database_name = current_database() AND schema_name = ${schema}
) AS definitions

-- name: dependents
-- One row per object that depends on a table or limits what may replace it: its kind and its name.
SELECT 'child' AS kind, table_name AS name
FROM duckdb_constraints()
WHERE database_name = current_database()
  AND constraint_type = 'FOREIGN KEY'
  AND schema_name = ${schema}
  AND referenced_table = ${table}

-- name: origins
-- One row where a table is a view, whose tables the catalogue does not name: 'unknown', an empty schema and why.
SELECT 'unknown', '', 'view'
FROM duckdb_views()
WHERE database_name = current_database() AND schema_name = ${schema} AND view_name = ${table}
