SELECT c.relname, CASE WHEN c.reltuples >= 1 THEN CAST(c.reltuples AS BIGINT) END
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'shop' AND c.relname IN ('orders')
