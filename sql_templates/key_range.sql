-- One row for each row of a range of keys: for the planner, which says how many it expects.
SELECT 1
FROM ${table}
WHERE ${where}
