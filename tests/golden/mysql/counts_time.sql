SELECT
  partition_id,
  COUNT(*) AS row_count,
  MIN(k) AS key_min,
  MAX(k) AS key_max,
  CAST(COUNT(*) - COUNT(c0) AS CHAR) AS nulls_0,
  CAST(SUM(c0) AS CHAR) AS sum_0,
  CAST(MIN(c0) AS CHAR) AS min_0,
  CAST(MAX(c0) AS CHAR) AS max_0,
  CAST(COUNT(*) - COUNT(c1) AS CHAR) AS nulls_1,
  CAST(CAST(SUM(CHAR_LENGTH(c1)) AS SIGNED) AS CHAR) AS characters_1,
  CAST(COUNT(*) - COUNT(c2) AS CHAR) AS nulls_2,
  CAST(SUM(c2) AS CHAR) AS sum_2,
  CAST(MIN(c2) AS CHAR) AS min_2,
  CAST(MAX(c2) AS CHAR) AS max_2,
  CAST(COUNT(*) - COUNT(c3) AS CHAR) AS nulls_3,
  CASE WHEN (MIN(c3) + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (MIN(c3) + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((MIN(c3) + 0e0)) < 1e-270 THEN ABS((MIN(c3) + 0e0)) * POWER(2e0, 1000) ELSE ABS((MIN(c3) + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((MIN(c3) + 0e0)) < 1e-270 THEN ABS((MIN(c3) + 0e0)) * POWER(2e0, 1000) ELSE ABS((MIN(c3) + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((MIN(c3) + 0e0)) < 1e-270 THEN ABS((MIN(c3) + 0e0)) * POWER(2e0, 1000) ELSE ABS((MIN(c3) + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((MIN(c3) + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS min_3,
  CASE WHEN (MAX(c3) + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (MAX(c3) + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((MAX(c3) + 0e0)) < 1e-270 THEN ABS((MAX(c3) + 0e0)) * POWER(2e0, 1000) ELSE ABS((MAX(c3) + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((MAX(c3) + 0e0)) < 1e-270 THEN ABS((MAX(c3) + 0e0)) * POWER(2e0, 1000) ELSE ABS((MAX(c3) + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((MAX(c3) + 0e0)) < 1e-270 THEN ABS((MAX(c3) + 0e0)) * POWER(2e0, 1000) ELSE ABS((MAX(c3) + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((MAX(c3) + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS max_3,
  CAST(COUNT(*) - COUNT(c4) AS CHAR) AS nulls_4,
  MIN(c4) AS min_4,
  MAX(c4) AS max_4,
  CAST(COUNT(*) - COUNT(c5) AS CHAR) AS nulls_5,
  CAST(SUM(c5) AS CHAR) AS sum_5,
  CAST(MIN(c5) AS CHAR) AS min_5,
  CAST(MAX(c5) AS CHAR) AS max_5
FROM (
  SELECT
    CAST(DATEDIFF(`shipped`, '1970-01-01') AS SIGNED) AS partition_id,
    `id` AS k,
    `id` AS c0,
    CONVERT(`name` USING utf8mb4) AS c1,
    `price` AS c2,
    `weight` AS c3,
    CAST(`shipped` AS CHAR) AS c4,
    `paid` AS c5
  FROM `shop`.`orders`
  WHERE 1 = 1
  LIMIT 18446744073709551615
) measured_rows
GROUP BY partition_id
ORDER BY partition_id
