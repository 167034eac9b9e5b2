SELECT
  'rows',
  COALESCE((SELECT STRING_AGG(p.polname, ', ' ORDER BY p.polname) FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid), 'without a policy')
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'shop' AND c.relname = 'orders' AND row_security_active(c.oid)
