-- One row per thing that hangs on a table: none, as keys are not enforced, and what reads a table that is written in place continues.
SELECT '' AS kind, table_name AS name
FROM svv_tables
WHERE table_schema = ${schema} AND table_name = ${table} AND 1 = 0
