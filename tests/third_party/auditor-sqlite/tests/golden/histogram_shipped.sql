SELECT
  bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN v < '2026-06-12 12:00:00' THEN CASE WHEN v < '2026-03-23 06:00:00' THEN 0 ELSE 1 END ELSE CASE WHEN v < '2026-09-01 18:00:00' THEN 2 ELSE 3 END END AS bucket
  FROM (
    SELECT "shipped" AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v IS NOT NULL
) bucketed_rows
GROUP BY bucket
ORDER BY bucket
