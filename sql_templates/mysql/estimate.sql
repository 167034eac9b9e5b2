-- One row: the engine's own estimate of how many rows there are, NULL where it has none.
SELECT TABLE_ROWS
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}
