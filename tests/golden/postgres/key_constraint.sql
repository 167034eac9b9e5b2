SELECT k.conname
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'p' AND n.nspname = 'shop' AND c.relname = 'orders'
