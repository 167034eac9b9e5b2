-- One row: the canonical texts of a column's least and greatest finite value, NULL where there is none.
SELECT
  ${least} AS least_text,
  ${greatest} AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT ${value} AS v
    FROM ${table}
    WHERE ${where}
  ) valued_rows
  WHERE ${within}
) b
