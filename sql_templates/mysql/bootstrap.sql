-- name: bootstrap_stage_create
-- Creates an empty table with the columns, types and keys of a target's table.
CREATE TABLE ${stage} LIKE ${target}

-- name: auto_increment
-- One row: the number that a table's next row gets automatically; NULL if it numbers none.
SELECT AUTO_INCREMENT
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}

-- name: bootstrap_rename
-- Renames a target's table and the copy that replaces it, in one statement.
RENAME TABLE ${target} TO ${old}, ${stage} TO ${target}

-- name: statements_like
-- One row per other session of this user whose statement looks like a pattern: that of a process that ended, which may wait for its table.
SELECT ID
FROM information_schema.PROCESSLIST
WHERE ID <> CONNECTION_ID() AND INFO LIKE ${table}
