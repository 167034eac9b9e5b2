-- One row: how often a batch of a patch is marked.
SELECT COUNT(*)
FROM ${markers}
WHERE patch = ${patch} AND batch = ${batch}
