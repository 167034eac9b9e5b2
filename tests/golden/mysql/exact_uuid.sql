SELECT
  (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS partition_id,
  COUNT(*) AS row_count,
  CASE WHEN COUNT(*) <= 4194304 THEN COUNT(a_hashed_rows.a_v) ELSE 0 END AS hashed,
  CAST(NULL AS SIGNED) AS key_min,
  CAST(NULL AS SIGNED) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30) + 0e0) AS SIGNED) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823) + 0e0) AS SIGNED) AS word_1,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * ((a_hashed_rows.a_kv & 32767) + 1)) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_1,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_2,
  CAST(SUM(((((a_hashed_rows.a_v >> 30) * ((a_hashed_rows.a_kv & 32767) + 1)) % 2147483647) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_3,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * (((((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1)) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647)) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_4,
  CAST(SUM(((((a_hashed_rows.a_v >> 30) * ((a_hashed_rows.a_kv & 32767) + 1)) % 2147483647) * (((((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1)) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647)) % 2147483647 + 0e0) AS SIGNED) % 2147483647 AS syndrome_5
FROM (
  SELECT
    (((COALESCE(CASE CHAR_LENGTH((`id` COLLATE utf8mb4_bin)) WHEN 36 THEN (UNCOMPRESSED_LENGTH(REVERSE(UNHEX(CONCAT('00000', SUBSTRING((`id` COLLATE utf8mb4_bin), 4, 5))))) * 1099511627776 + UNCOMPRESSED_LENGTH(REVERSE(UNHEX(CONCAT('00000', SUBSTRING((`id` COLLATE utf8mb4_bin), 13, 1), SUBSTRING((`id` COLLATE utf8mb4_bin), 15, 4))))) * 1048576 + UNCOMPRESSED_LENGTH(REVERSE(UNHEX(CONCAT('00000', SUBSTRING((`id` COLLATE utf8mb4_bin), 32, 5)))))) WHEN 32 THEN (UNCOMPRESSED_LENGTH(REVERSE(UNHEX(CONCAT('00000', SUBSTRING((`id` COLLATE utf8mb4_bin), 4, 5))))) * 1099511627776 + UNCOMPRESSED_LENGTH(REVERSE(UNHEX(CONCAT('00000', SUBSTRING((`id` COLLATE utf8mb4_bin), 12, 5))))) * 1048576 + UNCOMPRESSED_LENGTH(REVERSE(UNHEX(CONCAT('00000', SUBSTRING((`id` COLLATE utf8mb4_bin), 28, 5)))))) END, CAST(CONV(LEFT(SHA2(LOWER(CASE WHEN CHAR_LENGTH((`id` COLLATE utf8mb4_bin)) = 32 THEN CONCAT(SUBSTRING((`id` COLLATE utf8mb4_bin), 1, 8), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 9, 4), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 13, 4), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 17, 4), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 21, 1073741824)) ELSE (`id` COLLATE utf8mb4_bin) END), 256), 15), 16, 10) AS SIGNED)) % 1168518413 + 1168518413) * 346030291) % 2147483647) AS a_kv,
    CAST(CONV(LEFT(SHA2(CONCAT(REPLACE(LOWER(CASE WHEN CHAR_LENGTH((`id` COLLATE utf8mb4_bin)) = 32 THEN CONCAT(SUBSTRING((`id` COLLATE utf8mb4_bin), 1, 8), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 9, 4), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 13, 4), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 17, 4), '-', SUBSTRING((`id` COLLATE utf8mb4_bin), 21, 1073741824)) ELSE (`id` COLLATE utf8mb4_bin) END), '|', '|0'), '|1', REPLACE((`name` COLLATE utf8mb4_bin), '|', '|0'), '|1', `price`, '|1', CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|1', TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), '|1', `paid`), 256), 15), 16, 10) AS SIGNED) AS a_v
  FROM `shop`.`orders`
  WHERE 1 = 1
  LIMIT 18446744073709551615
) a_hashed_rows
GROUP BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
ORDER BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
