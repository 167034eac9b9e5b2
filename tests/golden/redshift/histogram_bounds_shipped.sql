SELECT
  (RTRIM(RTRIM(TO_CHAR(b.least, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || CASE WHEN b.least >= '0001-01-01' THEN '' ELSE ' BC' END) AS least_text,
  (RTRIM(RTRIM(TO_CHAR(b.greatest, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || CASE WHEN b.greatest >= '0001-01-01' THEN '' ELSE ' BC' END) AS greatest_text
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
