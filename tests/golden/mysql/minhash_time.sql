SELECT
  a_row_words.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_row_words.a_w3) AS hashed,
  MIN(a_row_words.a_k) AS key_min,
  MAX(a_row_words.a_k) AS key_max,
  CAST(SUM(a_row_words.a_w0) AS SIGNED) AS word_0,
  CAST(SUM(a_row_words.a_w1) AS SIGNED) AS word_1,
  CAST(SUM(a_row_words.a_w2) AS SIGNED) AS word_2,
  CAST(SUM(a_row_words.a_w3) AS SIGNED) AS word_3,
  MIN((((a_row_words.a_w3 * 1285533145 + 1655539436) % 2305843009213693951) & 2147483647)) AS minhash_0,
  MIN((((a_row_words.a_w3 * 1350832907 + 492214603) % 2305843009213693951) & 2147483647)) AS minhash_1,
  MIN((((a_row_words.a_w3 * 1235092432 + 1629043653) % 2305843009213693951) & 2147483647)) AS minhash_2,
  MIN((((a_row_words.a_w3 * 176256801 + 205743474) % 2305843009213693951) & 2147483647)) AS minhash_3
FROM (
  SELECT
    a_hashed_rows.a_partition_id AS a_partition_id,
    a_hashed_rows.a_k AS a_k,
    CAST(CONV(LEFT(a_hashed_rows.a_h, 8), 16, 10) AS SIGNED) AS a_w0,
    CAST(CONV(SUBSTR(a_hashed_rows.a_h, 9, 8), 16, 10) AS SIGNED) AS a_w1,
    CAST(CONV(SUBSTR(a_hashed_rows.a_h, 17, 8), 16, 10) AS SIGNED) AS a_w2,
    CAST(CONV(SUBSTR(a_hashed_rows.a_h, 25, 8), 16, 10) AS SIGNED) AS a_w3
  FROM (
    SELECT
      CAST(DATEDIFF(`shipped`, '1970-01-01') AS SIGNED) AS a_partition_id,
      `id` AS a_k,
      SHA2(CONCAT(COALESCE(`id`, '|2'), '|1', CASE WHEN `name` IS NULL THEN '|2' ELSE REPLACE((`name` COLLATE utf8mb4_bin), '|', '|0') END, '|1', COALESCE(`price`, '|2'), '|1', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|2'), '|1', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), '|2'), '|1', COALESCE(`paid`, '|2')), 256) AS a_h
    FROM `shop`.`orders`
    WHERE 1 = 1
    LIMIT 18446744073709551615
  ) a_hashed_rows
  LIMIT 18446744073709551615
) a_row_words
GROUP BY a_row_words.a_partition_id
ORDER BY a_row_words.a_partition_id
