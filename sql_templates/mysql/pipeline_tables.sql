-- One row per table with rows, in every database of the server: its database, its name, whether it is system-versioned, and how many rows
-- there are. Views have no rows of their own, and what a sequence holds is no row.
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE = 'SYSTEM VERSIONED', COUNT(*) OVER ()
FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY TABLE_SCHEMA, TABLE_NAME
