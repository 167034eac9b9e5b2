SELECT
  CAST(ROUND(CAST(b.least AS NUMERIC), 2) AS TEXT) AS least_text,
  CAST(ROUND(CAST(b.greatest AS NUMERIC), 2) AS TEXT) AS greatest_text
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
