-- Drops a table that a bootstrap made.
DROP TABLE IF EXISTS ${table}
