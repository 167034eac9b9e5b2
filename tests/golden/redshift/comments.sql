SELECT COALESCE(a.attname, ''), d.description
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_description d ON d.objoid = c.oid
JOIN pg_catalog.pg_class described ON described.oid = d.classoid AND described.relname = 'pg_class'
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
WHERE c.relname = 'orders' AND n.nspname = 'shop'
