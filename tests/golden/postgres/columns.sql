SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
WHERE a.attnum > 0
  AND NOT a.attisdropped
  AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
  AND LOWER(c.relname) = LOWER('orders')
  AND (n.nspname = 'shop' OR ('shop' IS NULL AND pg_table_is_visible(c.oid)))
ORDER BY n.nspname, c.relname, a.attnum
