SELECT '' AS kind, table_name AS name
FROM svv_tables
WHERE table_schema = 'shop' AND table_name = 'orders' AND 1 = 0
