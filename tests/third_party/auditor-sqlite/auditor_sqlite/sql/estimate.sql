-- One row: the engine's own estimate of how many rows there are. SQLite has one only after ANALYZE.
SELECT NULL
