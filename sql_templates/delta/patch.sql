-- name: patch_insert
-- Inserts one row, if there is none of its key.
INSERT INTO ${target} (${columns})
SELECT ${values}
WHERE NOT EXISTS (SELECT 1 FROM ${target} WHERE ${key})
