-- One row per statement that gives a copy the foreign keys of its table, in their order.
WITH t AS (
  SELECT c.oid
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${table}
)
SELECT s.statement
FROM t
JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid AND k.contype = 'f'
CROSS JOIN LATERAL (
  VALUES
    (1, pg_catalog.format('ALTER TABLE %I.%I DROP CONSTRAINT IF EXISTS %I', ${schema}, ${stage}, k.conname)),
    (2, pg_catalog.format(
      'ALTER TABLE %I.%I ADD CONSTRAINT %I %s NOT VALID', ${schema}, ${stage}, k.conname,
      pg_catalog.regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID$', '')
    )),
    (3, CASE WHEN k.convalidated THEN pg_catalog.format('ALTER TABLE %I.%I VALIDATE CONSTRAINT %I', ${schema}, ${stage}, k.conname) END)
) AS s (place, statement)
WHERE s.statement IS NOT NULL
ORDER BY k.conname, s.place
