WITH found AS (
  SELECT c.oid, c.xmin, row_security_active(c.oid) AS hides_rows
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'shop' AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
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
