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
