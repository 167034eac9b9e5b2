SELECT
  CAST(CAST(a_b.a_least AS DECIMAL(38,2)) AS VARCHAR) AS least_text,
  CAST(CAST(a_b.a_greatest AS DECIMAL(38,2)) AS VARCHAR) AS greatest_text
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
