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
