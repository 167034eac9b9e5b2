SELECT
  CAST(CAST(ROUND(b.least, 2) AS DECIMAL(38,2)) AS VARCHAR(41)) AS least_text,
  CAST(CAST(ROUND(b.greatest, 2) AS DECIMAL(38,2)) AS VARCHAR(41)) AS greatest_text
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
