SELECT
  (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS partition_id,
  COUNT(*) AS row_count,
  CASE WHEN COUNT(*) <= 4194304 THEN COUNT(a_hashed_rows.a_v) ELSE 0 END AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30) + 0e0) AS SIGNED) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823) + 0e0) AS SIGNED) AS word_1
FROM (
  SELECT
    (((`id` % 1168518413 + 1168518413) * 346030291) % 2147483647) AS a_kv,
    `id` AS a_k,
    CAST(CONV(LEFT(SHA2(CONCAT(COALESCE(`id`, '|2'), '|1', CASE WHEN `name` IS NULL THEN '|2' ELSE REPLACE((`name` COLLATE utf8mb4_bin), '|', '|0') END, '|1', COALESCE(`price`, '|2'), '|1', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|2'), '|1', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), '|2'), '|1', COALESCE(`paid`, '|2')), 256), 15), 16, 10) AS SIGNED) AS a_v
  FROM `shop`.`orders`
  WHERE 1 = 1
  LIMIT 18446744073709551615
) a_hashed_rows
GROUP BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
ORDER BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
