-- Makes a staging table: the columns of the target, which by the outer join may be NULL, and of each change its attempt, its place in the stream and whether it inserts (i) or deletes (d).
CREATE ${kind} ${stage} (
  auditor_attempt ${text},
  auditor_position ${integer},
  auditor_row ${integer},
  auditor_op ${text}
) ENGINE = InnoDB AS
SELECT
  NULL AS auditor_attempt,
  NULL AS auditor_position,
  NULL AS auditor_row,
  NULL AS auditor_op,
  ${columns}
FROM (SELECT 1 AS auditor_one) AS nothing
LEFT JOIN ${target} ON 1 = 0
WHERE 1 = 0
