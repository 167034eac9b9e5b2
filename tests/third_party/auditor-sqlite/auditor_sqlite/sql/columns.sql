-- One row per column of a table: schema, table, column, native type, whether it may be NULL, how many rows there are; in
-- the table's order.
SELECT 'main', m.name, c.name, c.type, NOT c."notnull", COUNT(*) OVER ()
FROM sqlite_schema m
JOIN pragma_table_xinfo(m.name) c
WHERE m.type IN ('table', 'view')
  AND LOWER(m.name) = LOWER(${table})
  AND LOWER(COALESCE(${schema}, 'main')) = 'main'
  AND c.hidden <> 1
ORDER BY m.name, c.cid
