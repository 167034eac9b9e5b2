-- One row, or none: a row whose key is from one cut on, and before an earlier one. Its index finds that there is none at once.
SELECT 1 AS one
FROM ${table}
WHERE ${key} >= ${first} AND ${key} < ${end}
ORDER BY ${key}
LIMIT 1
