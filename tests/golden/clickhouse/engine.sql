SELECT name, engine, engine_full
FROM system.tables
WHERE database = 'shop' AND name IN ('orders')
