-- name: tables
-- One row per table or view of the connection's database: schema, name, whether it is a view, whether its name is enough to find it,
-- and how many rows there are.
SELECT n.nspname, c.relname, c.relkind IN ('v', 'm'), pg_table_is_visible(c.oid), COUNT(*) OVER ()
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')
  AND NOT c.relispartition
  AND n.nspname <> 'information_schema'
  AND LEFT(n.nspname, 3) <> 'pg_'
ORDER BY n.nspname, c.relname

-- name: columns
-- One row per column of the asked tables: schema, table, column, native type (a domain with its base type, an enum marked as such, a composite
-- type with its fields), whether it may be NULL, and its collation unless under that only texts of the same characters are equal; in the
-- table's order.
WITH RECURSIVE declared AS (
  SELECT n.nspname, c.relname, a.attnum, a.attname, a.attnotnull, a.attcollation, a.atttypid, a.atttypid AS type_id, a.atttypmod AS modifier
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
  WHERE a.attnum > 0
    AND NOT a.attisdropped
    AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
    AND (c.relname IN (${tables}) OR LOWER(CAST(c.relname AS TEXT) COLLATE "default") IN (${folded}))
    AND (n.nspname = ${schema} OR (${schema} IS NULL AND pg_table_is_visible(c.oid)))
),
resolved AS (
  SELECT * FROM declared
  UNION ALL
  SELECT r.nspname, r.relname, r.attnum, r.attname, r.attnotnull, r.attcollation, r.atttypid, t.typbasetype, t.typtypmod
  FROM resolved r
  JOIN pg_catalog.pg_type t ON t.oid = r.type_id
  WHERE t.typtype = 'd'
)
SELECT
  r.nspname,
  r.relname,
  r.attname,
  CASE WHEN r.atttypid <> r.type_id THEN format_type(r.atttypid, NULL) || ' domain of ' ELSE '' END
    || format_type(r.type_id, r.modifier)
    || CASE WHEN 'e' IN (t.typtype, e.typtype) THEN ' enum' ELSE '' END
    || COALESCE(
      (
        SELECT ' struct<' || STRING_AGG(quote_ident(f.attname) || ' ' || format_type(f.atttypid, f.atttypmod), ', ' ORDER BY f.attnum) || '>'
        FROM pg_catalog.pg_attribute f
        WHERE t.typtype = 'c' AND f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped
      ),
      ''
    ),
  NOT r.attnotnull,
  CASE WHEN format_type(r.type_id, NULL) = 'citext' THEN 'citext' WHEN NOT l.collisdeterministic THEN l.collname END,
  COUNT(*) OVER ()
FROM resolved r
JOIN pg_catalog.pg_type t ON t.oid = r.type_id
LEFT JOIN pg_catalog.pg_collation l ON l.oid = r.attcollation
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE t.typtype <> 'd'
ORDER BY r.nspname, r.relname, r.attnum

-- name: result_types
-- One row per column of a result, in its order: native type (an enum marked as such), the collation under which texts of different
-- characters are equal because of the type, and whether its values have a collation. The modifier of a table's own column is the table's.
SELECT
  format_type(r.type_id, COALESCE(a.atttypmod, r.modifier)) || CASE WHEN 'e' IN (t.typtype, e.typtype) THEN ' enum' ELSE '' END,
  CASE WHEN format_type(r.type_id, NULL) = 'citext' THEN 'citext' END,
  t.typcollation <> 0
FROM (VALUES ${types}) AS r (place, type_id, modifier, table_id, column_number)
JOIN pg_catalog.pg_type t ON t.oid = r.type_id
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = r.table_id AND a.attnum = r.column_number AND a.atttypid = r.type_id
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
ORDER BY r.place

-- name: result_collations
-- One row per column of a query under whose collation texts of different characters can be equal: its place, and the collation. No row of
-- the query is read.
SELECT c.place, l.collname
FROM (SELECT 1) AS one
LEFT JOIN (SELECT * FROM ${query} LIMIT 0) AS read_query ON FALSE
CROSS JOIN LATERAL (VALUES ${collations}) AS c (place, shown)
JOIN pg_catalog.pg_collation l ON l.oid = CAST(c.shown AS regcollation)
WHERE NOT l.collisdeterministic

-- name: primary_key
-- One row per column of a primary key of the asked tables: table and column, in the key's order, and how many rows there are.
SELECT c.relname, a.attname, COUNT(*) OVER ()
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (p.conkey)
WHERE n.nspname = ${schema} AND c.relname IN (${tables})
ORDER BY c.relname, ARRAY_POSITION(p.conkey, a.attnum)

-- name: estimate
-- One row per asked table: its name; the engine's own estimate of how many rows it has, NULL where it has none; and whether reading them in
-- the order of the primary key could read pages from disk again and again, because they are stored in another order and are more than the server keeps.
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
WHERE n.nspname = ${schema} AND c.relname IN (${tables})

-- name: comments
-- One row per comment of a table: the column, or '' for the table itself, and its comment.
SELECT COALESCE(a.attname, ''), d.description
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_description d ON d.objoid = c.oid
JOIN pg_catalog.pg_class described ON described.oid = d.classoid AND described.relname = 'pg_class'
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
WHERE c.relname = ${table} AND n.nspname = ${schema}

-- name: indexes
-- One row per column that is the first one of a valid, non-partial B-tree index of a table.
SELECT DISTINCT a.attname
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_am m ON m.oid = c.relam
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = CAST(${table} AS regclass)
  AND i.indisvalid
  AND i.indisready
  AND i.indpred IS NULL
  AND m.amname = 'btree'

-- name: hazards
-- One row per property of a table that decides what a write does to it (Hazard in dialects lists the kinds): its kind, its name, and a
-- column of a unique index (empty for an expression, for an index of some of the rows, and for an exclusion constraint). A statement on a
-- table also writes its partitions and the tables that inherit from it, with what stands before their rows.
WITH RECURSIVE found AS (
  SELECT c.oid, c.relkind, c.relname
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${table} AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
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

-- name: catalogue_version
-- One row: a text that is another once a table of a schema, or a column, trigger, rule, constraint, index or policy of it, was made,
-- altered or dropped, by the transactions that wrote what the catalogue has of them; or once policies begin to hide rows from this user.
-- Partitions and tables that inherit count with the tables above them, whatever schema they are in.
WITH RECURSIVE reached AS (
  SELECT c.oid
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
  UNION
  SELECT i.inhrelid
  FROM reached r
  JOIN pg_catalog.pg_inherits i ON i.inhparent = r.oid
),
found AS (
  SELECT c.oid, c.xmin, row_security_active(c.oid) AS hides_rows
  FROM pg_catalog.pg_class c
  JOIN reached r ON r.oid = c.oid
)
SELECT MD5(STRING_AGG(definition, ';' ORDER BY definition))
FROM (
  SELECT CONCAT_WS(' ', 'table', oid, xmin, hides_rows) AS definition
  FROM found
  UNION ALL
  SELECT CONCAT_WS(' ', 'column', a.attrelid, a.attnum, a.xmin)
  FROM pg_catalog.pg_attribute a
  JOIN found t ON t.oid = a.attrelid
  WHERE a.attnum > 0
  UNION ALL
  SELECT CONCAT_WS(' ', 'trigger', g.oid, g.xmin)
  FROM pg_catalog.pg_trigger g
  JOIN found t ON t.oid = g.tgrelid
  UNION ALL
  SELECT CONCAT_WS(' ', 'rule', r.oid, r.xmin)
  FROM pg_catalog.pg_rewrite r
  JOIN found t ON t.oid = r.ev_class
  UNION ALL
  SELECT CONCAT_WS(' ', 'constraint', c.oid, c.xmin)
  FROM pg_catalog.pg_constraint c
  JOIN found t ON t.oid IN (c.conrelid, c.confrelid)
  UNION ALL
  SELECT CONCAT_WS(' ', 'index', i.indexrelid, i.xmin)
  FROM pg_catalog.pg_index i
  JOIN found t ON t.oid = i.indrelid
  UNION ALL
  SELECT CONCAT_WS(' ', 'partitions', p.partrelid, p.xmin)
  FROM pg_catalog.pg_partitioned_table p
  JOIN found t ON t.oid = p.partrelid
) AS definitions

-- name: dependents
-- One row per object that depends on a table or limits what may replace it: its kind and its name.
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

-- name: protections
-- One row per table on which row-level security applies to this user, and per table that a view reads, at any depth, on which there is
-- any: what is protected, and by which policies.
WITH RECURSIVE here AS (
  SELECT c.oid, c.relkind
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ${schema} AND c.relname = ${table}
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

-- name: origins
-- One row per other table whose values a table shows: 'part' for a parent or child, 'view' for what a view reads, and schema and name; or
-- 'unknown' with an empty schema and why the catalogue does not show all.
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
  WHERE n.nspname = ${schema} AND c.relname = ${table}
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

-- name: key_constraint
-- One row with the name of a table's primary key, if it has one.
SELECT k.conname
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'p' AND n.nspname = ${schema} AND c.relname = ${table}
