SELECT
  auditor_moment(b.least, 6) AS least_text,
  auditor_moment(b.greatest, 6) AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT "shipped" AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v >= '0001-01-01 00:00:00' AND v <= '9999-12-31 23:59:59.999999'
) b
