-- Keeps the last change of each key that an attempt loaded.
CREATE TEMPORARY TABLE ${last} ENGINE = InnoDB AS
SELECT *
FROM (
  SELECT
    auditor_op,
    ${columns},
    ROW_NUMBER() OVER (PARTITION BY ${key} ORDER BY auditor_position DESC, auditor_row DESC) AS auditor_rank
  FROM ${stage}
  WHERE auditor_attempt = ${attempt}
) AS ranked
WHERE auditor_rank = 1
