SELECT
  (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30)) AS BIGINT) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823)) AS BIGINT) AS word_1
FROM (
  SELECT
    (((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) AS a_kv,
    "id" AS a_k,
    CAST('0x' || SUBSTR(SHA256((COALESCE(CAST("id" AS VARCHAR), '|2') || '|1' || COALESCE(REPLACE((CAST("name" AS VARCHAR) COLLATE C), '|', '|0'), '|2') || '|1' || COALESCE(CAST(CAST("price" AS DECIMAL(38,2)) AS VARCHAR), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST("weight" AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END, '|2') || '|1' || COALESCE(CASE WHEN "shipped" < '0001-01-01' AND ISFINITE("shipped") THEN REPLACE(CAST("shipped" AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST("shipped" AS VARCHAR) END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 15) AS BIGINT) AS a_v
  FROM "shop"."orders"
  WHERE 1 = 1
) a_hashed_rows
GROUP BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
ORDER BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
