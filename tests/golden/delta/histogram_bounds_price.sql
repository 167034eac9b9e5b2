SELECT
  CAST(CAST(b.least AS DECIMAL(38,2)) AS VARCHAR) AS least_text,
  CAST(CAST(b.greatest AS DECIMAL(38,2)) AS VARCHAR) AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT "price" AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v IS NOT NULL
) b
