SELECT
  auditor_decimal(b.least, 2, -1) AS least_text,
  auditor_decimal(b.greatest, 2, -1) AS greatest_text
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
