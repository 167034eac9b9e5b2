-- name: bootstrap_stage_create
-- Creates an empty table with the columns, types and keys of a target's table.
CREATE TABLE ${stage} (LIKE ${target} INCLUDING GENERATED INCLUDING INDEXES)

-- name: copy_lines
-- One row per row of a source that is copied: the line of text with which the target loads it; NULL if it could not be built.
SELECT ${line}
FROM ${table}
WHERE ${where}

-- name: bootstrap_copy
-- Copies rows from one table to another.
INSERT INTO ${into} (${columns})
${overriding}
SELECT ${columns}
FROM ${table}
WHERE ${where}

-- name: bootstrap_clear
-- Deletes rows that are copied again.
DELETE FROM ${table}
WHERE ${where}

-- name: bootstrap_drop
-- Drops a table that a bootstrap created.
DROP TABLE IF EXISTS ${table}
