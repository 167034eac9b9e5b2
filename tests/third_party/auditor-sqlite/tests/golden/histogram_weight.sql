SELECT
  bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN v < (auditor_double('64.5')) THEN CASE WHEN v < (auditor_double('32.75')) THEN 0 ELSE 1 END ELSE CASE WHEN v < (auditor_double('96.25')) THEN 2 ELSE 3 END END AS bucket
  FROM (
    SELECT auditor_double("weight") AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v IS NOT NULL
) bucketed_rows
GROUP BY bucket
ORDER BY bucket
