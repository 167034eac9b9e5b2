-- One row: the canonical texts of a column's least and greatest finite value, NULL where there is none.
SELECT
  ${least} AS least_text,
  ${greatest} AS greatest_text
FROM (
  SELECT
    MIN(${p}valued_rows.${p}v) AS ${p}least,
    MAX(${p}valued_rows.${p}v) AS ${p}greatest
  FROM (
    SELECT ${value} AS ${p}v
    FROM ${table}
    WHERE ${where}
  ) ${p}valued_rows
  WHERE ${within}
) ${p}b
