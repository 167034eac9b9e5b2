-- name: bounds
-- One row: the least and the greatest key.
SELECT
  MIN(${key}),
  MAX(${key})
FROM ${table}
WHERE ${where}

-- name: key_ends
-- One row: the least and the greatest value of the first column of a table's primary key, which its index yields at once.
SELECT
  (SELECT ${value} AS ${p}end FROM ${table} ORDER BY ${key} LIMIT 1),
  (SELECT ${value} AS ${p}end FROM ${table} ORDER BY ${key} DESC LIMIT 1)

-- name: key_range
-- One row for each row of a range of keys: for the planner, which says how many it expects.
SELECT 1
FROM ${table}
WHERE ${where}

-- name: key_crossing
-- One row, or none: a row whose key is from one cut on, and before an earlier one. Its index finds that there is none at once.
SELECT 1 AS one
FROM ${table}
WHERE ${key} >= ${first} AND ${key} < ${end}
ORDER BY ${key}
LIMIT 1

-- name: writes
-- One row for each span of keys that holds rows written since a moment: its number, and how many these are.
SELECT
  ${span} AS ${p}span,
  COUNT(*) AS ${p}writes
FROM ${table}
WHERE ${where}
GROUP BY ${span}
