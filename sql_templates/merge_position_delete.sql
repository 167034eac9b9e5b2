-- Forgets the position of a table, so that its new one can be written.
DELETE FROM ${positions}
WHERE pipeline = ${pipeline} AND table_name = ${table}
