SELECT
  database,
  table,
  name,
  type,
  startsWith(type, 'Nullable(') OR startsWith(type, 'LowCardinality(Nullable('),
  COUNT(*) OVER ()
FROM system.columns
WHERE lowerUTF8(table) IN (lowerUTF8('orders'))
  AND lowerUTF8(database) = lowerUTF8(coalesce('shop', currentDatabase()))
  AND default_kind <> 'EPHEMERAL'
ORDER BY database, table, position
