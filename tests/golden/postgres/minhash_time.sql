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
    a_hashed_rows.a_partition_id AS a_partition_id,
    a_hashed_rows.a_k AS a_k,
    CAST(CAST('x' || SUBSTR(a_hashed_rows.a_h, 1, 8) AS BIT(32)) AS BIGINT) AS a_w0,
    CAST(CAST('x' || SUBSTR(a_hashed_rows.a_h, 9, 8) AS BIT(32)) AS BIGINT) AS a_w1,
    CAST(CAST('x' || SUBSTR(a_hashed_rows.a_h, 17, 8) AS BIT(32)) AS BIGINT) AS a_w2,
    CAST(CAST('x' || SUBSTR(a_hashed_rows.a_h, 25, 8) AS BIT(32)) AS BIGINT) AS a_w3
  FROM (
    SELECT
      CAST((CASE WHEN ISFINITE("shipped") THEN CAST("shipped" AS DATE) - DATE '1970-01-01' END) AS BIGINT) AS a_partition_id,
      "id" AS a_k,
      ENCODE(SHA256(CONVERT_TO((COALESCE(CAST("id" AS TEXT), '|2') || '|1' || COALESCE(REPLACE((CAST("name" AS TEXT) COLLATE "C"), '|', '|0'), '|2') || '|1' || COALESCE(CAST("price" AS TEXT), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END, '|2') || '|1' || COALESCE(CAST("shipped" AS TEXT), '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2')), 'UTF8')), 'hex') AS a_h
    FROM "shop"."orders"
    WHERE 1 = 1
    OFFSET '0'
  ) a_hashed_rows
  OFFSET '0'
) a_row_words
GROUP BY a_row_words.a_partition_id
ORDER BY a_row_words.a_partition_id
