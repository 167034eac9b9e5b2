SELECT
  c.relname,
  CASE WHEN c.reltuples >= 1 THEN CAST(c.reltuples AS BIGINT) END,
  (SELECT SUM(PG_RELATION_SIZE(part.relid)) FROM PG_PARTITION_TREE(c.oid) part) > PG_SIZE_BYTES(CURRENT_SETTING('shared_buffers'))
    AND NOT EXISTS (
      SELECT 1
      FROM pg_catalog.pg_constraint p
      JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.conkey[1]
      JOIN pg_catalog.pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
      WHERE p.conrelid = c.oid AND p.contype = 'p' AND ABS(s.correlation) > 0.9
    )
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'shop' AND c.relname IN ('orders')
