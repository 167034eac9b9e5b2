-- Removes the marks of a patch.
DELETE FROM ${markers}
WHERE patch = ${patch}
