SELECT 'unknown', '', 'view'
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'shop' AND c.relname = 'orders' AND c.relkind = 'v'
UNION ALL
SELECT 'unknown', '', 'missing'
WHERE NOT EXISTS (
  SELECT 1
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'shop' AND c.relname = 'orders'
)
