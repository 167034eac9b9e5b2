-- One row: seconds since the latest time in a column; NULL where there is none.
SELECT ${age}
FROM ${table}
