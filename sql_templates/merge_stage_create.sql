-- Makes a staging table: the columns of the target, and of each change its attempt, its place in the stream and whether it inserts (i) or deletes (d).
CREATE ${kind} ${stage} AS
SELECT
  CAST('' AS ${text}) AS auditor_attempt,
  CAST(0 AS ${integer}) AS auditor_position,
  CAST(0 AS ${integer}) AS auditor_row,
  CAST('' AS ${text}) AS auditor_op,
  ${columns}
FROM ${target}
WHERE 1 = 0
