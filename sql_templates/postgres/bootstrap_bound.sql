-- One row per thing that a table would lose if another took its name: what it is, as the server describes it.
WITH t AS (
  SELECT c.*
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${table}
),
found AS (
  SELECT d.classid, d.objid, d.objsubid
  FROM t
  JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = t.oid
  WHERE NOT (
    (d.classid = 'pg_catalog.pg_class'::regclass AND d.objid IN (SELECT oid FROM pg_catalog.pg_class WHERE relkind IN ('i', 'S', 't')))
    OR d.classid IN ('pg_catalog.pg_type'::regclass, 'pg_catalog.pg_attrdef'::regclass)
    OR d.objid IN (SELECT c.oid FROM pg_catalog.pg_constraint c WHERE c.conrelid = t.oid AND (c.contype <> 'f' OR c.confrelid <> t.oid))
    OR d.objid IN (SELECT g.oid FROM pg_catalog.pg_trigger g WHERE g.tgisinternal)
    OR d.objid IN (
      SELECT r.oid
      FROM pg_catalog.pg_rewrite r
      JOIN pg_catalog.pg_class v ON v.oid = r.ev_class AND v.relkind = 'v'
      WHERE r.rulename = '_RETURN' AND pg_catalog.pg_has_role(v.relowner, 'USAGE')
    )
    OR d.objid IN (
      SELECT r.oid
      FROM pg_catalog.pg_publication_rel r
      JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
      WHERE pg_catalog.pg_has_role(p.pubowner, 'USAGE')
        AND pg_catalog.to_jsonb(r) ->> 'prqual' IS NULL
        AND pg_catalog.to_jsonb(r) ->> 'prattrs' IS NULL
    )
  )
  UNION
  SELECT d.classid, d.objid, d.objsubid
  FROM t
  JOIN pg_catalog.pg_type y ON y.oid = t.reltype
  JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray)
  WHERE d.deptype <> 'i'
  UNION
  SELECT d.refclassid, d.refobjid, 0
  FROM t
  JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = t.oid AND d.deptype = 'e'
)
SELECT pg_catalog.pg_describe_object(classid, objid, objsubid) AS what
FROM found
UNION
SELECT 'its place among inherited or partitioned tables'
FROM t
JOIN pg_catalog.pg_inherits i ON t.oid IN (i.inhrelid, i.inhparent)
UNION
SELECT 'its row security'
FROM t
WHERE relrowsecurity OR relforcerowsecurity
UNION
SELECT 'its tablespace'
FROM t
WHERE reltablespace <> 0
UNION
SELECT 'that it is not logged'
FROM t
WHERE relpersistence <> 'p'
UNION
SELECT 'its owner, who is another user'
FROM t
WHERE NOT pg_catalog.pg_has_role(relowner, 'USAGE')
UNION
SELECT 'its security labels'
FROM t
JOIN pg_catalog.pg_seclabel l ON l.objoid = t.oid AND l.classoid = 'pg_catalog.pg_class'::regclass
ORDER BY what
