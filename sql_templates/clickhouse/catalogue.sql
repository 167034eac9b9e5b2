-- name: tables
-- One row per table or view of the session's database: schema, name, whether it is a view, whether its name is enough to find it,
-- and how many rows there are.
SELECT database, name, endsWith(engine, 'View'), true, COUNT(*) OVER ()
FROM system.tables
WHERE database = currentDatabase() AND NOT is_temporary AND NOT startsWith(name, '.inner')
ORDER BY database, name

-- name: columns
-- One row per column of the asked tables: schema, table, column, native type, whether it may be NULL, and how many rows there are;
-- in the table's order. A column that is EPHEMERAL cannot be read.
SELECT
  database,
  table,
  name,
  type,
  startsWith(type, 'Nullable(') OR startsWith(type, 'LowCardinality(Nullable('),
  COUNT(*) OVER ()
FROM system.columns
WHERE lowerUTF8(table) IN (${folded})
  AND lowerUTF8(database) = lowerUTF8(coalesce(${schema}, currentDatabase()))
  AND default_kind <> 'EPHEMERAL'
ORDER BY database, table, position

-- name: primary_key
-- One row per part of the key by which FINAL makes one row of several of the asked tables: table, and a column's name, in backticks where it
-- needs them, or an expression, in the key's order; and how many rows there are. A table whose rows FINAL leaves as they are has none, because no key of ClickHouse is a constraint.
SELECT name, part, COUNT(*) OVER ()
FROM (
  SELECT name, part, place
  FROM system.tables
  ARRAY JOIN splitByString(', ', sorting_key) AS part, arrayEnumerate(splitByString(', ', sorting_key)) AS place
  WHERE database = ${schema}
    AND name IN (${tables})
    AND sorting_key <> ''
    AND match(engine, '(Replacing|Collapsing|Coalescing|Summing|Aggregating)MergeTree$')
) AS parts
ORDER BY name, place

-- name: estimate
-- One row per asked table: its name, how many rows its parts have, older versions of a row among them; and that no key's order is cheap to
-- read.
SELECT name, total_rows, true
FROM system.tables
WHERE database = ${schema} AND name IN (${tables})

-- name: engine
-- One row per asked table: its name, its engine, and its definition.
SELECT name, engine, engine_full
FROM system.tables
WHERE database = ${schema} AND name IN (${tables})

-- name: comments
-- One row per comment of a table: the column, or '' for the table itself, and its comment.
SELECT name, comment
FROM system.columns
WHERE database = ${schema} AND table = ${table} AND comment <> ''
UNION ALL
SELECT '', comment
FROM system.tables
WHERE database = ${schema} AND name = ${table} AND comment <> ''

-- name: protections
-- One row per row policy of a table: 'rows', and its name.
SELECT 'rows', short_name
FROM system.row_policies
WHERE (database = ${schema} OR database = '') AND (table = ${table} OR table = '')

-- name: origins
-- One row if a table shows rows of others, which the catalogue does not name: 'unknown', an empty schema and why.
SELECT 'unknown', '', if(endsWith(engine, 'View'), 'view', 'storage')
FROM system.tables
WHERE database = ${schema}
  AND name = ${table}
  AND (endsWith(engine, 'View') OR engine IN ('Distributed', 'Merge'))

-- name: threads_running
-- One row: statements that run, this one among them.
SELECT COUNT(*)
FROM system.processes
WHERE is_initial_query

-- name: lag
-- One row: seconds by which the slowest replicated table of this server is behind; 0 without any.
SELECT coalesce(max(absolute_delay), 0)
FROM system.replicas

-- name: definition
-- One row: a table's engine, its definition, and its id.
SELECT engine, create_table_query, toString(uuid)
FROM system.tables
WHERE database = ${schema} AND name = ${table}

-- name: parts
-- One row per part of a table of which its rows consist now: name, hash, rows (those that a DELETE masks among them), bytes, and whether it
-- masks some; and how many these are.
SELECT name, hash_of_all_files, rows, bytes_on_disk, has_lightweight_delete, COUNT(*) OVER ()
FROM system.parts
WHERE active AND database = ${schema} AND table = ${table}
ORDER BY name

-- name: mutations
-- One row per change of a table that is not done in all parts: its name.
SELECT mutation_id
FROM system.mutations
WHERE NOT is_done AND database = ${schema} AND table = ${table}

-- name: column_names
-- One row per column of a table that can be read: its name, and how many these are; in the table's order.
SELECT name, COUNT(*) OVER ()
FROM system.columns
WHERE database = ${schema} AND table = ${table} AND default_kind <> 'EPHEMERAL'
ORDER BY position

-- name: computed_columns
-- One row per column of a table whose value an expression gives where a part has none: name, kind and expression, and how many these are.
SELECT name, default_kind, default_expression, COUNT(*) OVER ()
FROM system.columns
WHERE database = ${schema} AND table = ${table} AND default_kind IN ('DEFAULT', 'MATERIALIZED', 'ALIAS')
ORDER BY position

-- name: parts_without_column
-- One row: how many parts of a table do not have a column.
SELECT uniqExact(name) - uniqExactIf(name, column = ${column})
FROM system.parts_columns
WHERE active AND database = ${schema} AND table = ${table}

-- name: has_column
-- One row if a table has a column of this name: 1.
SELECT 1
FROM system.columns
WHERE database = ${schema} AND table = ${table} AND name = ${column}
