SELECT
  bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN v < (CAST('64.5' AS DOUBLE)) THEN CASE WHEN v < (CAST('32.75' AS DOUBLE)) THEN 0 ELSE 1 END ELSE CASE WHEN v < (CAST('96.25' AS DOUBLE)) THEN 2 ELSE 3 END END AS bucket
  FROM (
    SELECT CAST("weight" AS DOUBLE) AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v IS NOT NULL
) bucketed_rows
GROUP BY bucket
ORDER BY bucket
