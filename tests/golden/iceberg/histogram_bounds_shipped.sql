SELECT
  CASE WHEN a_b.a_least < '0001-01-01' AND ISFINITE(a_b.a_least) THEN REPLACE(CAST(a_b.a_least AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(a_b.a_least AS VARCHAR) END AS least_text,
  CASE WHEN a_b.a_greatest < '0001-01-01' AND ISFINITE(a_b.a_greatest) THEN REPLACE(CAST(a_b.a_greatest AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(a_b.a_greatest AS VARCHAR) END AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT "shipped" AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v >= CAST('0001-01-01 00:00:00.000000' AS TIMESTAMP) AND a_valued_rows.a_v <= CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP)
) a_b
