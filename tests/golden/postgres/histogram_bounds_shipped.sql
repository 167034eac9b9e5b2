SELECT
  CAST(b.least AS TEXT) AS least_text,
  CAST(b.greatest AS TEXT) AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT "shipped" AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v >= CAST('0001-01-01 00:00:00.000000' AS TIMESTAMP(6)) AND v <= CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP(6))
) b
