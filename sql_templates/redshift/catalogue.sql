-- name: tables
-- One row per table or view of the connection's database: schema, name, whether it is a view, whether its name is enough to find it,
-- and how many rows there are.
SELECT n.nspname, c.relname, c.relkind = 'v', pg_table_is_visible(c.oid), (
  SELECT COUNT(*)
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'v')
    AND n.nspname <> 'information_schema'
    AND LEFT(n.nspname, 3) <> 'pg_'
)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v')
  AND n.nspname <> 'information_schema'
  AND LEFT(n.nspname, 3) <> 'pg_'
ORDER BY n.nspname, c.relname

-- name: columns
-- One row per column of the asked tables: schema, table, column, native type, whether it may be NULL, and how many rows there are;
-- in the table's order.
SELECT
  table_schema,
  table_name,
  column_name,
  data_type || CASE
    WHEN data_type = 'numeric' THEN COALESCE('(' || numeric_precision || ',' || numeric_scale || ')', '')
    WHEN data_type IN ('character', 'character varying', 'binary varying') THEN COALESCE('(' || character_maximum_length || ')', '')
    ELSE ''
  END,
  is_nullable IS NULL OR UPPER(is_nullable) <> 'NO',
  (
    SELECT COUNT(*)
    FROM svv_columns
    WHERE (table_name IN (${tables}) OR LOWER(table_name) IN (${folded}))
      AND (table_schema = ${schema} OR LOWER(table_schema) = LOWER(${schema}))
  )
FROM svv_columns
WHERE (table_name IN (${tables}) OR LOWER(table_name) IN (${folded}))
  AND (table_schema = ${schema} OR LOWER(table_schema) = LOWER(${schema}))
ORDER BY table_schema, table_name, ordinal_position

-- name: all_columns
-- One row per column of a table of any database: database, schema, table, column, native type, whether it may be NULL; in the table's
-- order.
SELECT
  database_name,
  schema_name,
  table_name,
  column_name,
  data_type || CASE
    WHEN data_type = 'numeric' THEN COALESCE('(' || numeric_precision || ',' || numeric_scale || ')', '')
    WHEN data_type IN ('character', 'character varying', 'binary varying') THEN COALESCE('(' || character_maximum_length || ')', '')
    ELSE ''
  END,
  is_nullable IS NULL OR UPPER(is_nullable) <> 'NO',
  (
    SELECT COUNT(*)
    FROM svv_all_columns
    WHERE LOWER(database_name) = LOWER(${database})
      AND LOWER(schema_name) = LOWER(${schema})
      AND LOWER(table_name) = LOWER(${table})
  )
FROM svv_all_columns
WHERE LOWER(database_name) = LOWER(${database})
  AND LOWER(schema_name) = LOWER(${schema})
  AND LOWER(table_name) = LOWER(${table})
ORDER BY database_name, schema_name, table_name, ordinal_position

-- name: primary_key
-- One row per column of a primary key of the asked tables: table and column, and how many rows there are; in the table's order. No index has
-- another.
SELECT
  c.relname,
  a.attname,
  (
    SELECT COUNT(*)
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (p.conkey)
    WHERE n.nspname = ${schema} AND c.relname IN (${tables})
  )
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (p.conkey)
WHERE n.nspname = ${schema} AND c.relname IN (${tables})
ORDER BY c.relname, a.attnum

-- name: estimate
-- One row per asked table: its name, and the engine's own estimate of how many rows it has, NULL where it has none.
SELECT c.relname, CASE WHEN c.reltuples >= 1 THEN CAST(c.reltuples AS BIGINT) END
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${schema} AND c.relname IN (${tables})

-- name: table_info
-- One row per asked table that this user sees there: its name, and how many rows it has, without those that are deleted and still stored.
SELECT "table", CAST(estimated_visible_rows AS BIGINT)
FROM svv_table_info
WHERE "schema" = ${schema} AND "table" IN (${tables})

-- name: hazards
-- One row per property of a table that decides what a write does to it (Hazard in dialects lists the kinds): its kind, its name, and no
-- column. There are no triggers, and keys are declared and not enforced.
SELECT 'view' AS kind, table_name AS name, '' AS field
FROM svv_tables
WHERE table_schema = ${schema} AND table_name = ${table} AND table_type <> 'BASE TABLE'
UNION ALL
SELECT
  CASE WHEN column_default IS NULL THEN 'required' WHEN column_default LIKE '%identity%' THEN 'identity' ELSE 'default' END,
  column_name,
  ''
FROM svv_columns
WHERE table_schema = ${schema} AND table_name = ${table} AND (column_default IS NOT NULL OR UPPER(is_nullable) = 'NO')

-- name: dependents
-- One row per object that depends on a table or limits what may replace it: none, because keys are not enforced, and a table that is
-- written in place keeps its views.
SELECT '' AS kind, table_name AS name
FROM svv_tables
WHERE table_schema = ${schema} AND table_name = ${table} AND 1 = 0

-- name: protections
-- One row per user or role to which a policy of row-level security on a table is attached, and one for a view where such policies exist:
-- what is protected, and the policy. Which tables a view reads is not documented for every kind of view.
SELECT CAST('rows' AS VARCHAR(11)), polname
FROM svv_rls_attached_policy
WHERE relschema = ${schema} AND relname = ${table} AND is_rls_on
UNION ALL
SELECT CAST('read tables' AS VARCHAR(11)), table_name
FROM svv_tables
WHERE table_schema = ${schema}
  AND table_name = ${table}
  AND table_type = 'VIEW'
  AND (SELECT COUNT(*) FROM svv_rls_attached_policy WHERE is_rls_on) > 0

-- name: masking_policies
-- One row per user or role to which a masking policy on a table is attached: what is protected, and the policy.
SELECT CAST('values' AS VARCHAR(6)), policy_name
FROM svv_attached_masking_policy
WHERE schema_name = ${schema} AND table_name = ${table}

-- name: origins
-- One row where a table is a view or an external table, whose origins the catalogue does not show: 'unknown', an empty schema and why.
SELECT 'unknown', '', 'view'
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${schema} AND c.relname = ${table} AND c.relkind = 'v'
UNION ALL
SELECT 'unknown', '', 'missing'
WHERE NOT EXISTS (
  SELECT 1
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${table}
)

-- name: column_storage
-- One row per column of a table: its name, whether it has a default, its encoding, whether it is the distribution key, and its place in the
-- sort key (0: none).
SELECT column_name, column_default IS NOT NULL, encoding, distkey, sortkey
FROM svv_redshift_columns
WHERE database_name = ${database} AND schema_name = ${schema} AND table_name = ${table}
