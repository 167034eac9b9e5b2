-- Copies rows of the source; others cannot change them until the transaction ends.
INSERT INTO ${refresh_table} (${columns})
SELECT ${columns}
FROM ${table} FORCE INDEX (PRIMARY)
WHERE ${condition}
LOCK IN SHARE MODE
