-- One row: the engine's own estimate of how many rows there are, NULL where it has none.
SELECT CASE WHEN c.reltuples >= 1 THEN CAST(c.reltuples AS BIGINT) END
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${schema} AND c.relname = ${table}
