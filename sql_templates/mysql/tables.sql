-- One row per table or view of the connection's database, or of all if it has none: schema, name, whether it is a view, whether its name
-- is enough to find it, and how many rows there are. MariaDB lists the session's temporary tables, too, from 11.2.
-- https://mariadb.com/docs/server/reference/system-tables/information-schema/information-schema-tables/information-schema-tables-table
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE LIKE '%VIEW', DATABASE() IS NOT NULL, COUNT(*) OVER ()
FROM information_schema.TABLES
WHERE TABLE_TYPE <> 'TEMPORARY'
  AND (
    TABLE_SCHEMA = DATABASE()
    OR (DATABASE() IS NULL AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys'))
  )
ORDER BY TABLE_SCHEMA, TABLE_NAME
