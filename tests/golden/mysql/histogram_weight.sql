SELECT
  bucket,
  COUNT(*) AS bucket_rows
FROM (
  SELECT CASE WHEN v < (64.5e0) THEN CASE WHEN v < (32.75e0) THEN 0 ELSE 1 END ELSE CASE WHEN v < (96.25e0) THEN 2 ELSE 3 END END AS bucket
  FROM (
    SELECT (`weight` + 0e0) AS v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) valued_rows
  WHERE v IS NOT NULL
) bucketed_rows
GROUP BY bucket
ORDER BY bucket
