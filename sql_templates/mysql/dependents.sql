-- One row per thing that hangs on a table: its kind and its name.
SELECT 'child' AS kind, TABLE_NAME AS name
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE UNIQUE_CONSTRAINT_SCHEMA = ${schema} AND REFERENCED_TABLE_NAME = ${table} AND TABLE_NAME <> REFERENCED_TABLE_NAME
UNION
SELECT 'parent', REFERENCED_TABLE_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = ${schema} AND TABLE_NAME = ${table}
