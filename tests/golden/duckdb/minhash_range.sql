SELECT
  partition_id,
  COUNT(*) AS row_count,
  COUNT(w3) AS hashed,
  MIN(k) AS key_min,
  MAX(k) AS key_max,
  CAST(SUM(w0) AS BIGINT) AS word_0,
  CAST(SUM(w1) AS BIGINT) AS word_1,
  CAST(SUM(w2) AS BIGINT) AS word_2,
  CAST(SUM(w3) AS BIGINT) AS word_3,
  MIN(((w3 * 1285533145 + 1655539436) % 2305843009213693951) & 2147483647) AS minhash_0,
  MIN(((w3 * 1350832907 + 492214603) % 2305843009213693951) & 2147483647) AS minhash_1,
  MIN(((w3 * 1235092432 + 1629043653) % 2305843009213693951) & 2147483647) AS minhash_2,
  MIN(((w3 * 176256801 + 205743474) % 2305843009213693951) & 2147483647) AS minhash_3
FROM (
  SELECT
    partition_id,
    k,
    CAST('0x' || SUBSTR(h, 1, 8) AS BIGINT) AS w0,
    CAST('0x' || SUBSTR(h, 9, 8) AS BIGINT) AS w1,
    CAST('0x' || SUBSTR(h, 17, 8) AS BIGINT) AS w2,
    CAST('0x' || SUBSTR(h, 25, 8) AS BIGINT) AS w3
  FROM (
    SELECT
      ("id" // 1024 - CASE WHEN "id" % 1024 < 0 THEN 1 ELSE 0 END) AS partition_id,
      "id" AS k,
      SHA256((COALESCE(CAST("id" AS VARCHAR), '~N') || '|' || COALESCE(REPLACE(REPLACE(CAST("name" AS VARCHAR), '~', '~0'), '|', '~1'), '~N') || '|' || COALESCE(CAST(CAST("price" AS DECIMAL(38,2)) AS VARCHAR), '~N') || '|' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST("weight" AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END, '~N') || '|' || COALESCE(CASE WHEN "shipped" >= '0001-01-01' AND "shipped" < 'infinity' THEN STRFTIME("shipped", '%Y-%m-%d %H:%M:%S.%f') ELSE REPLACE(CAST("shipped" AS VARCHAR), ' (BC)', ' BC') END, '~N') || '|' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '~N'))) AS h
    FROM "shop"."orders"
    WHERE "id" >= 1024 AND "id" < 4096
  ) hashed_rows
) row_words
GROUP BY partition_id
ORDER BY partition_id
