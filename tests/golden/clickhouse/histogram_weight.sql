SELECT
  a_bucketed_rows.a_bucket AS bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN a_valued_rows.a_v < (toFloat64('64.5')) THEN CASE WHEN a_valued_rows.a_v < (toFloat64('32.75')) THEN 0 ELSE 1 END ELSE CASE WHEN a_valued_rows.a_v < (toFloat64('96.25')) THEN 2 ELSE 3 END END AS a_bucket
  FROM (
    SELECT toFloat64("weight") AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v IS NOT NULL
) a_bucketed_rows
GROUP BY a_bucketed_rows.a_bucket
ORDER BY a_bucketed_rows.a_bucket
