SELECT
  CAST(ROUND(CAST(a_b.a_least AS NUMERIC), 2) AS TEXT) AS least_text,
  CAST(ROUND(CAST(a_b.a_greatest AS NUMERIC), 2) AS TEXT) AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT "price" AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v IS NOT NULL
) a_b
