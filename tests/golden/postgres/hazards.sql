WITH RECURSIVE found AS (
  SELECT c.oid, c.relkind, c.relname
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'shop' AND c.relname = 'orders' AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
),
written AS (
  SELECT oid, FALSE AS is_below FROM found
  UNION
  SELECT i.inhrelid, TRUE
  FROM written w
  JOIN pg_catalog.pg_inherits i ON i.inhparent = w.oid
),
fields AS (
  SELECT a.attname, a.attnotnull, a.atthasdef, a.attidentity, a.attgenerated
  FROM found t
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
)
SELECT 'view' AS kind, CAST(t.relname AS TEXT) AS name, NULL AS field
FROM found t
WHERE t.relkind NOT IN ('r', 'p')
UNION ALL
SELECT 'trigger', CAST(g.tgname AS TEXT), NULL
FROM found t
JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D'
UNION ALL
SELECT 'trigger', CONCAT(g.tgname, ' of ', CAST(t.oid AS regclass)), NULL
FROM written t
JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D'
WHERE t.is_below AND g.tgparentid = 0 AND g.tgtype & 1 = 1 -- for each row, and not the parent's
UNION ALL
SELECT 'trigger', CAST(r.rulename AS TEXT), NULL
FROM found t
JOIN pg_catalog.pg_rewrite r ON r.ev_class = t.oid AND t.relkind IN ('r', 'p')
UNION ALL
SELECT 'cascade', CAST(c.conrelid AS regclass)::TEXT, NULL
FROM written t
JOIN pg_catalog.pg_constraint c ON c.confrelid = t.oid AND c.contype = 'f'
WHERE (c.confdeltype NOT IN ('a', 'r') OR c.confupdtype NOT IN ('a', 'r')) AND (NOT t.is_below OR c.conparentid = 0)
UNION ALL
SELECT 'row security', CAST(t.relname AS TEXT), NULL
FROM found t
WHERE row_security_active(t.oid)
UNION ALL
SELECT 'partitions', CAST(t.relname AS TEXT), NULL
FROM found t
JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = t.oid AND p.partdefid = 0 AND p.partstrat <> 'h'
UNION ALL
SELECT 'generated', CAST(f.attname AS TEXT), NULL
FROM fields f
WHERE f.attgenerated <> ''
UNION ALL
SELECT 'identity', CAST(f.attname AS TEXT), NULL
FROM fields f
WHERE f.attidentity = 'a'
UNION ALL
SELECT 'default', CAST(f.attname AS TEXT), NULL
FROM fields f
WHERE (f.atthasdef AND f.attgenerated = '') OR f.attidentity <> ''
UNION ALL
SELECT 'required', CAST(f.attname AS TEXT), NULL
FROM fields f
WHERE f.attnotnull AND NOT f.atthasdef AND f.attidentity = ''
UNION ALL
SELECT 'unique', CAST(x.indexrelid AS regclass)::TEXT, CASE WHEN i.indpred IS NULL AND NOT i.indisexclusion THEN CAST(a.attname AS TEXT) ELSE '' END
FROM found t
JOIN pg_catalog.pg_index i ON i.indrelid = t.oid AND (i.indisunique OR i.indisexclusion) AND i.indisvalid
CROSS JOIN LATERAL (SELECT i.indexrelid, UNNEST(i.indkey) AS attnum) x
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.attnum
UNION ALL
SELECT 'expression of', CAST(i.indexrelid AS regclass)::TEXT, CAST(a.attname AS TEXT)
FROM found t
JOIN pg_catalog.pg_index i ON i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
JOIN pg_catalog.pg_depend d ON d.objid = i.indexrelid AND d.refobjid = t.oid AND d.refobjsubid > 0
JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
UNION ALL
SELECT 'nulls equal', CAST(i.indexrelid AS regclass)::TEXT, NULL
FROM found t
JOIN pg_catalog.pg_index i ON i.indrelid = t.oid AND i.indisunique AND i.indisvalid
WHERE TO_JSONB(i) ->> 'indnullsnotdistinct' = 'true'
UNION ALL
SELECT s.kind, CONCAT(c.conname, ' ', TO_CHAR(s.place, 'FM00')), CAST(a.attname AS TEXT)
FROM found t
JOIN pg_catalog.pg_constraint c ON c.conrelid = t.oid AND c.confrelid = t.oid AND c.contype = 'f'
CROSS JOIN LATERAL (
  SELECT CAST('refers' AS TEXT) AS kind, k.attnum, k.place FROM UNNEST(c.conkey) WITH ORDINALITY AS k (attnum, place)
  UNION ALL
  SELECT CAST('referred' AS TEXT), k.attnum, k.place FROM UNNEST(c.confkey) WITH ORDINALITY AS k (attnum, place)
) s
JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = s.attnum
