SELECT
  partition_id,
  COUNT(*) AS row_count,
  COUNT(w3) AS hashed,
  MIN(k) AS key_min,
  MAX(k) AS key_max,
  CAST(SUM(w0) AS SIGNED) AS word_0,
  CAST(SUM(w1) AS SIGNED) AS word_1,
  CAST(SUM(w2) AS SIGNED) AS word_2,
  CAST(SUM(w3) AS SIGNED) AS word_3,
  MIN((((w3 * 1285533145 + 1655539436) % 2305843009213693951) & 2147483647)) AS minhash_0,
  MIN((((w3 * 1350832907 + 492214603) % 2305843009213693951) & 2147483647)) AS minhash_1,
  MIN((((w3 * 1235092432 + 1629043653) % 2305843009213693951) & 2147483647)) AS minhash_2,
  MIN((((w3 * 176256801 + 205743474) % 2305843009213693951) & 2147483647)) AS minhash_3
FROM (
  SELECT
    partition_id AS partition_id,
    k,
    CAST(CONV(LEFT(h, 8), 16, 10) AS SIGNED) AS w0,
    CAST(CONV(SUBSTR(h, 9, 8), 16, 10) AS SIGNED) AS w1,
    CAST(CONV(SUBSTR(h, 17, 8), 16, 10) AS SIGNED) AS w2,
    CAST(CONV(SUBSTR(h, 25, 8), 16, 10) AS SIGNED) AS w3
  FROM (
    SELECT
      (`id` DIV 1024 - (`id` % 1024 < 0)) AS partition_id,
      `id` AS k,
      SHA2(CONCAT(COALESCE(`id`, '|2'), '|1', CASE WHEN `name` IS NULL THEN '|2' ELSE REPLACE(`name`, '|', '|0') END, '|1', COALESCE(`price`, '|2'), '|1', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|2'), '|1', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), '|2'), '|1', COALESCE(`paid`, '|2')), 256) AS h
    FROM `shop`.`orders`
    WHERE `id` >= 1024 AND `id` < 4096
    LIMIT 18446744073709551615
  ) hashed_rows
  LIMIT 18446744073709551615
) row_words
GROUP BY partition_id
ORDER BY partition_id
