-- name: tables
-- One row per table or view of the file: schema, name, whether it is a view, whether its name is enough to find it,
-- and how many rows there are.
SELECT 'main', name, type = 'view', TRUE, COUNT(*) OVER ()
FROM sqlite_schema
WHERE type IN ('table', 'view') AND SUBSTR(name, 1, 7) <> 'sqlite_'
ORDER BY name

-- name: columns
-- One row per column of the asked tables: schema, table, column, native type, whether it may be NULL, how many rows there are; in
-- the table's order.
SELECT 'main', m.name, c.name, c.type, NOT c."notnull", COUNT(*) OVER ()
FROM sqlite_schema m
JOIN pragma_table_xinfo(m.name) c
WHERE m.type IN ('table', 'view')
  AND LOWER(m.name) IN (${folded})
  AND LOWER(COALESCE(${schema}, 'main')) = 'main'
  AND c.hidden <> 1
ORDER BY m.name, c.cid

-- name: primary_key
-- One row per column of a primary key of the asked tables: table and column, in the key's order, and how many rows there are.
SELECT m.name, c.name, COUNT(*) OVER ()
FROM sqlite_schema m
JOIN pragma_table_info(m.name) c
WHERE m.name IN (${tables}) AND c.pk > 0
ORDER BY m.name, c.pk

-- name: estimate
-- One row per asked table: its name, and the engine's own estimate of how many rows it has. SQLite has one only after ANALYZE.
SELECT name, NULL
FROM sqlite_schema
WHERE name IN (${tables})
