-- One row per row of a chunk: its values as the pipeline writes them; others cannot change the rows until the transaction ends.
SELECT ${texts}
FROM ${table} FORCE INDEX (PRIMARY)
WHERE ${condition}
LOCK IN SHARE MODE
