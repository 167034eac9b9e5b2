SELECT
  CASE WHEN b.least < '0001-01-01' AND ISFINITE(b.least) THEN REPLACE(CAST(b.least AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(b.least AS VARCHAR) END AS least_text,
  CASE WHEN b.greatest < '0001-01-01' AND ISFINITE(b.greatest) THEN REPLACE(CAST(b.greatest AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(b.greatest AS VARCHAR) END AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT "shipped" AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v >= CAST('0001-01-01 00:00:00.000000' AS TIMESTAMP) AND v <= CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP)
) b
