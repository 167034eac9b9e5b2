SELECT
  (kv * kv % 2147483647 % 64) AS partition_id,
  COUNT(*) AS row_count,
  CASE WHEN COUNT(*) <= 4194304 THEN COUNT(v) ELSE 0 END AS hashed,
  MIN(k) AS key_min,
  MAX(k) AS key_max,
  CAST(SUM((v >> 30) + 0e0) AS SIGNED) AS word_0,
  CAST(SUM((v & 1073741823) + 0e0) AS SIGNED) AS word_1,
  CAST(SUM(((v >> 30) * ((kv & 32767) + 1)) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_1,
  CAST(SUM(((v >> 30) * (((kv & 32767) + 1) * ((kv & 32767) + 1))) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_2,
  CAST(SUM(((((v >> 30) * ((kv & 32767) + 1)) % 2147483647) * (((kv & 32767) + 1) * ((kv & 32767) + 1))) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_3,
  CAST(SUM(((v >> 30) * (((((kv & 32767) + 1) * ((kv & 32767) + 1)) * (((kv & 32767) + 1) * ((kv & 32767) + 1))) % 2147483647)) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_4,
  CAST(SUM(((((v >> 30) * ((kv & 32767) + 1)) % 2147483647) * (((((kv & 32767) + 1) * ((kv & 32767) + 1)) * (((kv & 32767) + 1) * ((kv & 32767) + 1))) % 2147483647)) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_5
FROM (
  SELECT
    (((CASE WHEN CHAR_LENGTH(`id`) = 36 AND UNHEX(CONCAT(SUBSTRING(`id`, 4, 5), SUBSTRING(`id`, 13, 1), SUBSTRING(`id`, 15, 4), SUBSTRING(`id`, 32, 5))) IS NOT NULL THEN CAST(CONV(CONCAT(SUBSTRING(`id`, 4, 5), SUBSTRING(`id`, 13, 1), SUBSTRING(`id`, 15, 4), SUBSTRING(`id`, 32, 5)), 16, 10) AS SIGNED) WHEN CHAR_LENGTH(`id`) = 32 AND UNHEX(CONCAT(SUBSTRING(`id`, 4, 5), SUBSTRING(`id`, 12, 5), SUBSTRING(`id`, 28, 5))) IS NOT NULL THEN CAST(CONV(CONCAT(SUBSTRING(`id`, 4, 5), SUBSTRING(`id`, 12, 5), SUBSTRING(`id`, 28, 5)), 16, 10) AS SIGNED) ELSE CAST(CONV(SUBSTR(SHA2(LOWER(CASE WHEN CHAR_LENGTH(`id`) = 32 THEN CONCAT(SUBSTRING(`id`, 1, 8), '-', SUBSTRING(`id`, 9, 4), '-', SUBSTRING(`id`, 13, 4), '-', SUBSTRING(`id`, 17, 4), '-', SUBSTRING(`id`, 21, 1073741824)) ELSE `id` END), 256), 1, 15), 16, 10) AS SIGNED) END % 1168518413 + 1168518413) * 346030291) % 2147483647) AS kv,
    CAST(NULL AS SIGNED) AS k,
    CAST(CONV(SUBSTR(SHA2(CONCAT(REPLACE(LOWER(CASE WHEN CHAR_LENGTH(`id`) = 32 THEN CONCAT(SUBSTRING(`id`, 1, 8), '-', SUBSTRING(`id`, 9, 4), '-', SUBSTRING(`id`, 13, 4), '-', SUBSTRING(`id`, 17, 4), '-', SUBSTRING(`id`, 21, 1073741824)) ELSE `id` END), '|', '|0'), '|1', REPLACE(`name`, '|', '|0'), '|1', `price`, '|1', CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|1', TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM `shipped`)), '|1', `paid`), 256), 1, 15), 16, 10) AS SIGNED) AS v
  FROM `shop`.`orders`
  WHERE 1 = 1
  LIMIT 18446744073709551615
) hashed_rows
GROUP BY (kv * kv % 2147483647 % 64)
ORDER BY (kv * kv % 2147483647 % 64)
