SELECT
  a_row_words.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_row_words.a_w3) AS hashed,
  MIN(a_row_words.a_k) AS key_min,
  MAX(a_row_words.a_k) AS key_max,
  CAST(SUM(a_row_words.a_w0) AS BIGINT) AS word_0,
  CAST(SUM(a_row_words.a_w1) AS BIGINT) AS word_1,
  CAST(SUM(a_row_words.a_w2) AS BIGINT) AS word_2,
  CAST(SUM(a_row_words.a_w3) AS BIGINT) AS word_3,
  MIN((((a_row_words.a_w3 * 1285533145 + 1655539436) % 2305843009213693951) & 2147483647)) AS minhash_0,
  MIN((((a_row_words.a_w3 * 1350832907 + 492214603) % 2305843009213693951) & 2147483647)) AS minhash_1,
  MIN((((a_row_words.a_w3 * 1235092432 + 1629043653) % 2305843009213693951) & 2147483647)) AS minhash_2,
  MIN((((a_row_words.a_w3 * 176256801 + 205743474) % 2305843009213693951) & 2147483647)) AS minhash_3
FROM (
  SELECT
    (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS a_partition_id,
    a_hashed_rows.a_k AS a_k,
    CAST('0x' || SUBSTR(a_hashed_rows.a_h, 1, 8) AS BIGINT) AS a_w0,
    CAST('0x' || SUBSTR(a_hashed_rows.a_h, 9, 8) AS BIGINT) AS a_w1,
    CAST('0x' || SUBSTR(a_hashed_rows.a_h, 17, 8) AS BIGINT) AS a_w2,
    CAST('0x' || SUBSTR(a_hashed_rows.a_h, 25, 8) AS BIGINT) AS a_w3
  FROM (
    SELECT
      (((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) AS a_kv,
      "id" AS a_k,
      SHA256((COALESCE(CAST("id" AS VARCHAR), '|2') || '|1' || COALESCE(REPLACE((CAST("name" AS VARCHAR) COLLATE C), '|', '|0'), '|2') || '|1' || COALESCE(CAST(CAST("price" AS DECIMAL(38,2)) AS VARCHAR), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST("weight" AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END, '|2') || '|1' || COALESCE(CASE WHEN "shipped" < '0001-01-01' AND ISFINITE("shipped") THEN REPLACE(CAST("shipped" AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST("shipped" AS VARCHAR) END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))) AS a_h
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_hashed_rows
) a_row_words
GROUP BY a_row_words.a_partition_id
ORDER BY a_row_words.a_partition_id
