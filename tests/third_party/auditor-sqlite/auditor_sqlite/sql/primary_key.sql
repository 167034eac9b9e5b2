-- One row per column of the primary key, in the key's order, and how many these are.
SELECT name, COUNT(*) OVER ()
FROM pragma_table_info(${table})
WHERE pk > 0
ORDER BY pk
