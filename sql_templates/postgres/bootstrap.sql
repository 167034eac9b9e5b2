-- name: bootstrap_whole_create
-- Creates an empty table that will take the name of a target's table, with everything its columns have: defaults, checks, indexes,
-- comments, storage.
CREATE TABLE ${stage} (LIKE ${target} INCLUDING ALL)

-- name: bootstrap_bound
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

-- name: bootstrap_keys
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

-- name: bootstrap_carry
-- One row per statement that makes a copy take the name of its table, with what is not bound to a name: those are run in their order.
WITH t AS (
  SELECT c.*, n.nspname
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${table}
),
s AS (
  SELECT c.*, n.nspname
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${stage}
),
indexes AS (
  SELECT
    i.indrelid, i.indexrelid, c.relname, i.indisreplident, i.indisclustered, d.method,
    ROW_NUMBER() OVER (PARTITION BY i.indrelid, i.indisprimary, i.indisunique, d.method ORDER BY i.indexrelid) AS place,
    i.indisprimary, i.indisunique
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
  CROSS JOIN LATERAL (SELECT pg_catalog.substring(pg_catalog.pg_get_indexdef(i.indexrelid), ' USING .*$') AS method) AS d
  WHERE i.indrelid IN (SELECT oid FROM t UNION SELECT oid FROM s)
),
paired AS (
  SELECT a.*, b.relname AS copy_name
  FROM indexes a
  JOIN t ON t.oid = a.indrelid
  JOIN indexes b
    ON b.indrelid = (SELECT oid FROM s)
   AND (b.indisprimary, b.indisunique, b.method, b.place) = (a.indisprimary, a.indisunique, a.method, a.place)
),
sequences AS (
  SELECT d.refobjid AS owner, a.attname, a.attnum, q.relname, n.nspname, d.deptype, q.oid
  FROM pg_catalog.pg_depend d
  JOIN pg_catalog.pg_class q ON q.oid = d.objid AND q.relkind = 'S'
  JOIN pg_catalog.pg_namespace n ON n.oid = q.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
  WHERE d.classid = 'pg_catalog.pg_class'::regclass
    AND d.refclassid = 'pg_catalog.pg_class'::regclass
    AND d.refobjid IN (SELECT oid FROM t UNION SELECT oid FROM s)
),
numbering AS (
  SELECT a.relname, a.nspname, b.relname AS copy_name, b.nspname AS copy_schema
  FROM sequences a
  JOIN t ON t.oid = a.owner
  JOIN s ON TRUE
  JOIN sequences b ON b.owner = s.oid AND b.attname = a.attname AND b.deptype = 'i'
  WHERE a.deptype = 'i'
),
statements AS (
  SELECT 10 AS place, pg_catalog.format('ALTER TABLE %I.%I OWNER TO %I', t.nspname, s.relname, pg_catalog.pg_get_userbyid(t.relowner)) AS sql
  FROM t CROSS JOIN s
  WHERE t.relowner <> s.relowner
  UNION ALL
  SELECT DISTINCT 20, pg_catalog.format('REVOKE ALL ON %I.%I FROM %s', s.nspname, s.relname, COALESCE(pg_catalog.quote_ident(r.rolname), 'PUBLIC'))
  FROM s
  CROSS JOIN LATERAL pg_catalog.aclexplode(s.relacl) AS g
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
  WHERE g.grantee <> s.relowner
  UNION ALL
  SELECT 21, pg_catalog.format(
    'GRANT %s ON %I.%I TO %s%s', g.privilege_type, s.nspname, s.relname, COALESCE(pg_catalog.quote_ident(r.rolname), 'PUBLIC'),
    CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
  )
  FROM t
  CROSS JOIN s
  CROSS JOIN LATERAL pg_catalog.aclexplode(t.relacl) AS g
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
  WHERE g.grantee <> t.relowner
  UNION ALL
  SELECT 22, pg_catalog.format(
    'GRANT %s (%I) ON %I.%I TO %s%s', g.privilege_type, a.attname, s.nspname, s.relname,
    COALESCE(pg_catalog.quote_ident(r.rolname), 'PUBLIC'), CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
  )
  FROM t
  CROSS JOIN s
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attacl IS NOT NULL AND NOT a.attisdropped
  CROSS JOIN LATERAL pg_catalog.aclexplode(a.attacl) AS g
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
  UNION ALL
  SELECT 30, pg_catalog.format('ALTER TABLE %I.%I SET (%s)', s.nspname, s.relname, pg_catalog.array_to_string(t.reloptions, ', '))
  FROM t CROSS JOIN s
  WHERE t.reloptions IS NOT NULL
  UNION ALL
  SELECT 31, pg_catalog.format(
    'ALTER TABLE %I.%I SET (toast.%s)', s.nspname, s.relname, pg_catalog.array_to_string(o.reloptions, ', toast.')
  )
  FROM t
  CROSS JOIN s
  JOIN pg_catalog.pg_class o ON o.oid = t.reltoastrelid AND o.reloptions IS NOT NULL
  UNION ALL
  SELECT 32, pg_catalog.format('ALTER TABLE %I.%I ALTER COLUMN %I SET STATISTICS %s', s.nspname, s.relname, a.attname, a.attstattarget)
  FROM t
  CROSS JOIN s
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND a.attstattarget >= 0 AND NOT a.attisdropped
  UNION ALL
  SELECT 33, pg_catalog.format(
    'ALTER TABLE %I.%I REPLICA IDENTITY %s', s.nspname, s.relname, CASE t.relreplident WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END
  )
  FROM t CROSS JOIN s
  WHERE t.relreplident IN ('f', 'n')
  UNION ALL
  SELECT 40, pg_catalog.format('COMMENT ON TABLE %I.%I IS %L', s.nspname, s.relname, pg_catalog.obj_description(t.oid, 'pg_class'))
  FROM t CROSS JOIN s
  WHERE pg_catalog.obj_description(t.oid, 'pg_class') IS NOT NULL
  UNION ALL
  SELECT 50, pg_catalog.format('ALTER SEQUENCE %I.%I OWNED BY %I.%I.%I', q.nspname, q.relname, s.nspname, s.relname, q.attname)
  FROM t
  CROSS JOIN s
  JOIN sequences q ON q.owner = t.oid AND q.deptype = 'a'
  UNION ALL
  SELECT 60, pg_catalog.format(
    'SELECT pg_catalog.setval(%L, last_value, is_called) FROM %I.%I',
    pg_catalog.quote_ident(copy_schema) || '.' || pg_catalog.quote_ident(copy_name), nspname, relname
  )
  FROM numbering
  UNION ALL
  SELECT 70 + v.place, pg_catalog.format(v.text, p.pubname, t.nspname, CASE v.place WHEN 0 THEN t.relname ELSE s.relname END)
  FROM t
  CROSS JOIN s
  JOIN pg_catalog.pg_publication_rel r ON r.prrelid = t.oid
  JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
  CROSS JOIN (VALUES (0, 'ALTER PUBLICATION %I DROP TABLE %I.%I'), (1, 'ALTER PUBLICATION %I ADD TABLE %I.%I')) AS v (place, text)
  UNION ALL
  SELECT 80 + v.place, pg_catalog.format(
    'ALTER %s %I.%I RENAME TO %I', k.what, k.nspname, CASE v.place WHEN 0 THEN k.relname ELSE k.copy_name END,
    CASE v.place WHEN 0 THEN pg_catalog.left(k.relname, 40) || ${suffix} ELSE k.relname END
  )
  FROM (
    SELECT 'INDEX' AS what, ${schema} AS nspname, relname, copy_name FROM paired
    UNION ALL
    SELECT 'SEQUENCE', nspname, relname, copy_name FROM numbering
  ) AS k
  CROSS JOIN (VALUES (0), (1)) AS v (place)
  UNION ALL
  SELECT 90, pg_catalog.format('ALTER TABLE %I.%I RENAME TO %I', t.nspname, t.relname, ${old})
  FROM t
  UNION ALL
  SELECT 91, pg_catalog.format('ALTER TABLE %I.%I RENAME TO %I', s.nspname, s.relname, ${table})
  FROM s
  UNION ALL
  SELECT 92, pg_catalog.format('ALTER TABLE %I.%I REPLICA IDENTITY USING INDEX %I', t.nspname, t.relname, p.relname)
  FROM t JOIN paired p ON p.indisreplident
  WHERE t.relreplident = 'i'
  UNION ALL
  SELECT 93, pg_catalog.format('ALTER TABLE %I.%I CLUSTER ON %I', t.nspname, t.relname, p.relname)
  FROM t JOIN paired p ON p.indisclustered
  UNION ALL
  SELECT DISTINCT 99, pg_catalog.format(
    'CREATE OR REPLACE VIEW %I.%I %s AS %s', n.nspname, v.relname,
    CASE WHEN v.reloptions IS NOT NULL THEN 'WITH (' || pg_catalog.array_to_string(v.reloptions, ', ') || ')' ELSE '' END,
    pg_catalog.pg_get_viewdef(v.oid)
  )
  FROM t
  JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = t.oid
  JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND r.oid = d.objid
  JOIN pg_catalog.pg_class v ON v.oid = r.ev_class AND v.relkind = 'v'
  JOIN pg_catalog.pg_namespace n ON n.oid = v.relnamespace
)
SELECT sql
FROM statements
ORDER BY place, sql
