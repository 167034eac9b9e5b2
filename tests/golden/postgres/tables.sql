SELECT n.nspname, c.relname, c.relkind IN ('v', 'm'), pg_table_is_visible(c.oid), COUNT(*) OVER ()
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')
  AND NOT c.relispartition
  AND n.nspname <> 'information_schema'
  AND LEFT(n.nspname, 3) <> 'pg_'
ORDER BY n.nspname, c.relname
