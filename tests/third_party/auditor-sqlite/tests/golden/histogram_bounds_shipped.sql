SELECT
  auditor_moment(a_b.a_least, 6) AS least_text,
  auditor_moment(a_b.a_greatest, 6) AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT "shipped" AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v >= '0001-01-01 00:00:00' AND a_valued_rows.a_v <= '9999-12-31 23:59:59.999999'
) a_b
