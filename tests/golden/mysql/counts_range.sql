SELECT
  a_m.a_partition_id AS partition_id,
  a_m.a_row_count AS row_count,
  a_m.a_key_min AS key_min,
  a_m.a_key_max AS key_max,
  CAST(CAST(a_m.a_nulls_0 AS CHAR) AS CHAR(255)) AS nulls_0,
  CAST(CAST(CAST(a_m.a_sum_0 AS DECIMAL(65,0)) AS CHAR) AS CHAR(255)) AS sum_0,
  CAST(CAST(CAST(a_m.a_min_0 AS DECIMAL(65,0)) AS CHAR) AS CHAR(255)) AS min_0,
  CAST(CAST(CAST(a_m.a_max_0 AS DECIMAL(65,0)) AS CHAR) AS CHAR(255)) AS max_0,
  CAST(CAST(a_m.a_nulls_1 AS CHAR) AS CHAR(255)) AS nulls_1,
  CAST(CAST(a_m.a_characters_1 AS CHAR) AS CHAR(255)) AS characters_1,
  CAST(CAST(a_m.a_bytes_1 AS CHAR) AS CHAR(255)) AS bytes_1,
  CAST(CAST(a_m.a_nulls_2 AS CHAR) AS CHAR(255)) AS nulls_2,
  CAST(CAST(CAST(a_m.a_sum_2 AS DECIMAL(65,2)) AS CHAR) AS CHAR(255)) AS sum_2,
  CAST(CAST(CAST(a_m.a_min_2 AS DECIMAL(65,2)) AS CHAR) AS CHAR(255)) AS min_2,
  CAST(CAST(CAST(a_m.a_max_2 AS DECIMAL(65,2)) AS CHAR) AS CHAR(255)) AS max_2,
  CAST(CAST(a_m.a_nulls_3 AS CHAR) AS CHAR(255)) AS nulls_3,
  CAST(CASE WHEN (a_m.a_min_3 + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (a_m.a_min_3 + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((a_m.a_min_3 + 0e0)) < 1e-270 THEN ABS((a_m.a_min_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_m.a_min_3 + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((a_m.a_min_3 + 0e0)) < 1e-270 THEN ABS((a_m.a_min_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_m.a_min_3 + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((a_m.a_min_3 + 0e0)) < 1e-270 THEN ABS((a_m.a_min_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_m.a_min_3 + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((a_m.a_min_3 + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS CHAR(255)) AS min_3,
  CAST(CASE WHEN (a_m.a_max_3 + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (a_m.a_max_3 + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((a_m.a_max_3 + 0e0)) < 1e-270 THEN ABS((a_m.a_max_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_m.a_max_3 + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((a_m.a_max_3 + 0e0)) < 1e-270 THEN ABS((a_m.a_max_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_m.a_max_3 + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((a_m.a_max_3 + 0e0)) < 1e-270 THEN ABS((a_m.a_max_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_m.a_max_3 + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((a_m.a_max_3 + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS CHAR(255)) AS max_3,
  CAST(CAST(a_m.a_nulls_4 AS CHAR) AS CHAR(255)) AS nulls_4,
  CAST(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(a_m.a_min_4 AS CHAR))) AS CHAR(255)) AS min_4,
  CAST(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(a_m.a_max_4 AS CHAR))) AS CHAR(255)) AS max_4,
  CAST(CAST(a_m.a_nulls_5 AS CHAR) AS CHAR(255)) AS nulls_5,
  CAST(CAST(CAST(a_m.a_sum_5 AS DECIMAL(65,0)) AS CHAR) AS CHAR(255)) AS sum_5,
  CAST(CAST(CAST(a_m.a_min_5 AS DECIMAL(65,0)) AS CHAR) AS CHAR(255)) AS min_5,
  CAST(CAST(CAST(a_m.a_max_5 AS DECIMAL(65,0)) AS CHAR) AS CHAR(255)) AS max_5
FROM (
  SELECT
    a_read_rows.a_partition_id AS a_partition_id,
    COUNT(*) AS a_row_count,
    MIN(a_read_rows.a_k) AS a_key_min,
    MAX(a_read_rows.a_k) AS a_key_max,
    COUNT(*) - COUNT(a_read_rows.a_v0) AS a_nulls_0,
    SUM(a_read_rows.a_v0) AS a_sum_0,
    MIN(a_read_rows.a_v0) AS a_min_0,
    MAX(a_read_rows.a_v0) AS a_max_0,
    COUNT(*) - COUNT(a_read_rows.a_v1) AS a_nulls_1,
    CAST(SUM(a_read_rows.a_d1) AS SIGNED) AS a_characters_1,
    CAST(SUM(a_read_rows.a_b1) AS SIGNED) AS a_bytes_1,
    COUNT(*) - COUNT(a_read_rows.a_v2) AS a_nulls_2,
    SUM(a_read_rows.a_v2) AS a_sum_2,
    MIN(a_read_rows.a_v2) AS a_min_2,
    MAX(a_read_rows.a_v2) AS a_max_2,
    COUNT(*) - COUNT(a_read_rows.a_v3) AS a_nulls_3,
    MIN(a_read_rows.a_v3) AS a_min_3,
    MAX(a_read_rows.a_v3) AS a_max_3,
    COUNT(*) - COUNT(a_read_rows.a_v4) AS a_nulls_4,
    MIN(a_read_rows.a_v4) AS a_min_4,
    MAX(a_read_rows.a_v4) AS a_max_4,
    COUNT(*) - COUNT(a_read_rows.a_v5) AS a_nulls_5,
    SUM(a_read_rows.a_v5) AS a_sum_5,
    MIN(a_read_rows.a_v5) AS a_min_5,
    MAX(a_read_rows.a_v5) AS a_max_5
  FROM (
    SELECT
      (`id` DIV 1024 - (`id` % 1024 < 0)) AS a_partition_id,
      `id` AS a_k,
      `id` AS a_v0,
      `name` AS a_v1,
      CHAR_LENGTH((`name` COLLATE utf8mb4_bin)) AS a_d1,
      OCTET_LENGTH(CONVERT((`name` COLLATE utf8mb4_bin) USING utf8mb4)) AS a_b1,
      `price` AS a_v2,
      `weight` AS a_v3,
      `shipped` AS a_v4,
      `paid` AS a_v5
    FROM `shop`.`orders`
    WHERE `id` >= 1024 AND `id` < 4096
  ) a_read_rows
  GROUP BY a_read_rows.a_partition_id
) a_m
ORDER BY a_m.a_partition_id
