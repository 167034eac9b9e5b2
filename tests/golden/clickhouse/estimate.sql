SELECT total_rows, true
FROM system.tables
WHERE database = 'shop' AND name = 'orders'
