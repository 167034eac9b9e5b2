-- One row per column of each index of a table.
SHOW INDEX FROM ${table}
