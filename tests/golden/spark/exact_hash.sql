SELECT
  (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM(SHIFTRIGHT(a_hashed_rows.a_v, 30)) AS BIGINT) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823)) AS BIGINT) AS word_1,
  CAST(SUM((SHIFTRIGHT(a_hashed_rows.a_v, 30) * a_hashed_rows.a_x) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_1,
  CAST(SUM((SHIFTRIGHT(a_hashed_rows.a_v, 30) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_2,
  CAST(SUM((((SHIFTRIGHT(a_hashed_rows.a_v, 30) * a_hashed_rows.a_x) % 2147483647) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_3,
  CAST(SUM((SHIFTRIGHT(a_hashed_rows.a_v, 30) * (((a_hashed_rows.a_x * a_hashed_rows.a_x) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_4,
  CAST(SUM((((SHIFTRIGHT(a_hashed_rows.a_v, 30) * a_hashed_rows.a_x) % 2147483647) * (((a_hashed_rows.a_x * a_hashed_rows.a_x) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_5
FROM (
  SELECT
    (((CAST(`id` % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) AS a_kv,
    (((((CAST(`id` % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) & 32767) + 1) AS a_x,
    `id` AS a_k,
    CAST(CONV(SUBSTR(SHA2(CONCAT(COALESCE(CAST(`id` AS STRING), '|2'), '|1', COALESCE(REPLACE((`name` COLLATE UTF8_BINARY), '|', '|0'), '|2'), '|1', COALESCE(CAST(CAST(`price` AS DECIMAL(38,2)) AS STRING), '|2'), '|1', COALESCE(CASE WHEN CAST(`weight` AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST(`weight` AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST(`weight` AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST(`weight` AS DOUBLE) = 0 THEN '0' ELSE CONCAT(CASE WHEN CAST(`weight` AS DOUBLE) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS(CAST(`weight` AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(`weight` AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(`weight` AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST(`weight` AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(`weight` AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(`weight` AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS STRING), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST(`weight` AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(`weight` AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(`weight` AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST(`weight` AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS STRING)) END, '|2'), '|1', COALESCE(CASE WHEN YEAR(`shipped`) < 1 THEN CONCAT(LPAD(CAST(1 - YEAR(`shipped`) AS STRING), 4, '0'), TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM DATE_FORMAT(`shipped`, '-MM-dd HH:mm:ss.SSSSSS'))), ' BC') ELSE TRIM(LEADING '+' FROM CAST(`shipped` AS STRING)) END, '|2'), '|1', COALESCE(CASE WHEN `paid` THEN '1' WHEN NOT `paid` THEN '0' END, '|2')), 256), 1, 15), 16, 10) AS BIGINT) AS a_v
  FROM `shop`.`orders`
  WHERE 1 = 1
) a_hashed_rows
GROUP BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
ORDER BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
