WITH RECURSIVE links AS (
  SELECT inhrelid AS one, inhparent AS other, true AS up, CAST('part' AS TEXT) AS kind FROM pg_catalog.pg_inherits
  UNION ALL
  SELECT inhparent, inhrelid, false, CAST('part' AS TEXT) FROM pg_catalog.pg_inherits
  UNION ALL
  SELECT w.ev_class, d.refobjid, false, CAST('view' AS TEXT)
  FROM pg_catalog.pg_depend d
  JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid
  WHERE d.classid = CAST('pg_catalog.pg_rewrite' AS regclass)
    AND d.refclassid = CAST('pg_catalog.pg_class' AS regclass)
    AND d.refobjid <> w.ev_class
    AND w.rulename = '_RETURN'
),
related AS (
  SELECT c.oid, false AS up, CAST('self' AS TEXT) AS kind
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'shop' AND c.relname = 'orders'
  UNION
  SELECT l.other, l.up, l.kind
  FROM related r
  JOIN links l ON l.one = r.oid
  WHERE l.up OR NOT r.up
)
SELECT DISTINCT r.kind, n.nspname, c.relname
FROM related r
JOIN pg_catalog.pg_class c ON c.oid = r.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE r.kind <> 'self'
UNION ALL
SELECT 'unknown', '', 'foreign'
WHERE EXISTS (SELECT 1 FROM related r JOIN pg_catalog.pg_class c ON c.oid = r.oid WHERE c.relkind = 'f')
UNION ALL
SELECT 'unknown', '', 'function'
WHERE EXISTS (
  SELECT 1
  FROM related r
  JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid
  JOIN pg_catalog.pg_depend d ON d.objid = w.oid AND d.classid = CAST('pg_catalog.pg_rewrite' AS regclass)
  WHERE d.refclassid = CAST('pg_catalog.pg_proc' AS regclass)
)
