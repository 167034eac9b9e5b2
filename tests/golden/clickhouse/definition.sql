SELECT engine, create_table_query, toString(uuid)
FROM system.tables
WHERE database = 'shop' AND name = 'orders'
