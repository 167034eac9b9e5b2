SELECT
  c.relname,
  a.attname,
  (
    SELECT COUNT(*)
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (p.conkey)
    WHERE n.nspname = 'shop' AND c.relname IN ('orders')
  )
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (p.conkey)
WHERE n.nspname = 'shop' AND c.relname IN ('orders')
ORDER BY c.relname, a.attnum
