-- One row: the key of the last row of the next chunk; none if fewer rows are left.
SELECT ${texts}
FROM ${table} FORCE INDEX (PRIMARY)
WHERE ${condition}
ORDER BY ${key}
LIMIT 1 OFFSET ${offset}
