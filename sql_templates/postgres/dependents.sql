-- One row per thing that hangs on a table: its kind and its name.
WITH found AS (
  SELECT c.oid, c.relkind, c.relispartition
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${table}
)
SELECT 'child' AS kind, CAST(c.conrelid AS regclass)::TEXT AS name
FROM found t
JOIN pg_catalog.pg_constraint c ON c.confrelid = t.oid AND c.contype = 'f' AND c.conrelid <> t.oid
UNION
SELECT 'parent', CAST(c.confrelid AS regclass)::TEXT
FROM found t
JOIN pg_catalog.pg_constraint c ON c.conrelid = t.oid AND c.contype = 'f'
UNION
SELECT 'view', CAST(r.ev_class AS regclass)::TEXT
FROM found t
JOIN pg_catalog.pg_depend d ON d.refobjid = t.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass
JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_catalog.pg_rewrite'::regclass AND r.ev_class <> t.oid
UNION
SELECT 'publication', CAST(p.pubname AS TEXT)
FROM found t
JOIN pg_catalog.pg_publication_rel r ON r.prrelid = t.oid
JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
UNION
SELECT 'policy', CAST(p.polname AS TEXT)
FROM found t
JOIN pg_catalog.pg_policy p ON p.polrelid = t.oid
UNION
SELECT 'partition', CAST(i.inhrelid AS regclass)::TEXT
FROM found t
JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid
