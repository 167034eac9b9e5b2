SELECT
  a_bucketed_rows.a_bucket AS bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN a_valued_rows.a_v < CAST('2026-06-12 12:00:00.000000' AS TIMESTAMP) THEN CASE WHEN a_valued_rows.a_v < CAST('2026-03-23 06:00:00.000000' AS TIMESTAMP) THEN 0 ELSE 1 END ELSE CASE WHEN a_valued_rows.a_v < CAST('2026-09-01 18:00:00.000000' AS TIMESTAMP) THEN 2 ELSE 3 END END AS a_bucket
  FROM (
    SELECT "shipped" AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v IS NOT NULL
) a_bucketed_rows
GROUP BY a_bucketed_rows.a_bucket
ORDER BY a_bucketed_rows.a_bucket
