SELECT 'unknown', '', if(endsWith(engine, 'View'), 'view', 'storage')
FROM system.tables
WHERE database = 'shop'
  AND name = 'orders'
  AND (endsWith(engine, 'View') OR engine IN ('Distributed', 'Merge'))
