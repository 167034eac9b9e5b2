-- One row: the engine's own estimate of how many rows there are, NULL where it has none, and whether the table
-- is partitioned, so that its primary key's index does not yield the rows in its order.
SELECT TABLE_ROWS, CREATE_OPTIONS LIKE '%partitioned%'
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}
