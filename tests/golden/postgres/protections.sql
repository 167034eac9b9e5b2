WITH RECURSIVE here AS (
  SELECT c.oid, c.relkind
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'shop' AND c.relname = 'orders'
),
read_by_view (oid) AS (
  SELECT d.refobjid
  FROM here
  JOIN pg_catalog.pg_rewrite r ON r.ev_class = here.oid AND here.relkind = 'v'
  JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
  WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> here.oid
  UNION
  SELECT d.refobjid
  FROM read_by_view v
  JOIN pg_catalog.pg_class c ON c.oid = v.oid AND c.relkind = 'v'
  JOIN pg_catalog.pg_rewrite r ON r.ev_class = v.oid
  JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
  WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> v.oid
),
protected AS (
  SELECT CAST('rows' AS VARCHAR(9)) AS what, oid
  FROM here
  WHERE row_security_active(oid)
  UNION ALL
  SELECT CAST('read rows' AS VARCHAR(9)), v.oid
  FROM read_by_view v
  JOIN pg_catalog.pg_class c ON c.oid = v.oid
  WHERE c.relrowsecurity
)
SELECT
  t.what,
  COALESCE((SELECT STRING_AGG(p.polname, ', ' ORDER BY p.polname) FROM pg_catalog.pg_policy p WHERE p.polrelid = t.oid), 'without a policy')
FROM protected t
