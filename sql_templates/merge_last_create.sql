-- Keeps the last change of each key that an attempt loaded.
CREATE TEMPORARY TABLE ${last} AS
SELECT *
FROM (
  SELECT
    auditor_position,
    auditor_row,
    auditor_op,
    ${columns},
    ROW_NUMBER() OVER (PARTITION BY ${key} ORDER BY auditor_position DESC, auditor_row DESC) AS auditor_rank
  FROM ${stage}
  WHERE auditor_attempt = ${attempt} AND auditor_op IN ('i', 'd')
) AS ranked
WHERE auditor_rank = 1
