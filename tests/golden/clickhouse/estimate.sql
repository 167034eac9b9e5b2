SELECT name, total_rows, true
FROM system.tables
WHERE database = 'shop' AND name IN ('orders')
