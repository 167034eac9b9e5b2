-- One row: how many rows and characters the sums of an epoch have, their last place, and the digest of their columns.
SELECT COUNT(*), COALESCE(SUM(size), 0), MAX(place), MAX(shape)
FROM ${sums}
WHERE epoch = ${epoch}
