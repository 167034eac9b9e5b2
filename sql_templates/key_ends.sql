-- One row: the least and the greatest value of the first column of a table's primary key, which its index yields at once.
SELECT
  (SELECT ${value} AS ${p}end FROM ${table} ORDER BY ${key} LIMIT 1),
  (SELECT ${value} AS ${p}end FROM ${table} ORDER BY ${key} DESC LIMIT 1)
