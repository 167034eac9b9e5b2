SELECT
  bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN v < (49.75) THEN CASE WHEN v < (25.12) THEN 0 ELSE 1 END ELSE CASE WHEN v < (74.38) THEN 2 ELSE 3 END END AS bucket
  FROM (
    SELECT "price" AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v IS NOT NULL
) bucketed_rows
GROUP BY bucket
ORDER BY bucket
