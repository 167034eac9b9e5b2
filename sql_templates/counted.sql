-- One row per row of a statement's result: how many there are, and the result's columns. Of an empty result, one row of NULLs.
SELECT read_all.*
FROM (SELECT 1 AS always) AS read_always
LEFT JOIN (
  SELECT COUNT(*) OVER () AS read_total, read_result.*
  FROM (
    ${statement}
  ) AS read_result
) AS read_all ON 1 = 1
