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
