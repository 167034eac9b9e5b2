-- One row per column of the primary key, in the key's order.
SELECT name
FROM pragma_table_info(${table})
WHERE pk > 0
ORDER BY pk
