SELECT TABLE_ROWS, CREATE_OPTIONS LIKE '%partitioned%'
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME = 'orders'
