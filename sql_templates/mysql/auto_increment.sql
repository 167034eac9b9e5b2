-- One row: the number that a table's next row gets automatically; NULL if it numbers none.
SELECT AUTO_INCREMENT
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}
