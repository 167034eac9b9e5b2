-- name: patch_insert
-- Inserts one row.
INSERT INTO ${target} (${columns}) ${overriding}VALUES (${values})

-- name: patch_update
-- Updates one row, if it still has the digest with which it was read.
UPDATE ${target}
SET ${values}
WHERE ${key} AND ${digest} = ${expected}

-- name: patch_delete
-- Deletes one row, if it still has the digest with which it was read.
DELETE FROM ${target}
WHERE ${key} AND ${digest} = ${expected}

-- name: patch_markers_create
-- Creates the table of a target in which each batch of a patch leaves a mark, which shows whether it was committed.
CREATE TABLE IF NOT EXISTS ${markers} (
  patch ${text} NOT NULL,
  batch ${integer} NOT NULL,
  PRIMARY KEY (patch, batch)
)

-- name: patch_marker_insert
-- Marks a batch of a patch.
INSERT INTO ${markers} (patch, batch)
VALUES (${patch}, ${batch})

-- name: patch_marker_count
-- One row: how often a batch of a patch is marked; 0 if it was not committed.
SELECT COUNT(*)
FROM ${markers}
WHERE patch = ${patch} AND batch = ${batch}

-- name: patch_marker_delete
-- Deletes the marks of a patch.
DELETE FROM ${markers}
WHERE patch = ${patch}
