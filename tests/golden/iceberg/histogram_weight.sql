SELECT
  a_bucketed_rows.a_bucket AS bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN a_valued_rows.a_v < (CAST('64.5' AS DOUBLE)) THEN CASE WHEN a_valued_rows.a_v < (CAST('32.75' AS DOUBLE)) THEN 0 ELSE 1 END ELSE CASE WHEN a_valued_rows.a_v < (CAST('96.25' AS DOUBLE)) THEN 2 ELSE 3 END END AS a_bucket
  FROM (
    SELECT CAST("weight" AS DOUBLE) AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v IS NOT NULL
) a_bucketed_rows
GROUP BY a_bucketed_rows.a_bucket
ORDER BY a_bucketed_rows.a_bucket
