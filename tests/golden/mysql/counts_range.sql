SELECT
  m.partition_id,
  m.row_count,
  m.key_min,
  m.key_max,
  CAST(m.nulls_0 AS CHAR) AS nulls_0,
  CAST(CAST(m.sum_0 AS DECIMAL(65,0)) AS CHAR) AS sum_0,
  CAST(CAST(m.min_0 AS DECIMAL(65,0)) AS CHAR) AS min_0,
  CAST(CAST(m.max_0 AS DECIMAL(65,0)) AS CHAR) AS max_0,
  CAST(m.nulls_1 AS CHAR) AS nulls_1,
  CAST(m.characters_1 AS CHAR) AS characters_1,
  CAST(m.nulls_2 AS CHAR) AS nulls_2,
  CAST(CAST(m.sum_2 AS DECIMAL(65,2)) AS CHAR) AS sum_2,
  CAST(CAST(m.min_2 AS DECIMAL(65,2)) AS CHAR) AS min_2,
  CAST(CAST(m.max_2 AS DECIMAL(65,2)) AS CHAR) AS max_2,
  CAST(m.nulls_3 AS CHAR) AS nulls_3,
  CASE WHEN (m.min_3 + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (m.min_3 + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((m.min_3 + 0e0)) < 1e-270 THEN ABS((m.min_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((m.min_3 + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((m.min_3 + 0e0)) < 1e-270 THEN ABS((m.min_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((m.min_3 + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((m.min_3 + 0e0)) < 1e-270 THEN ABS((m.min_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((m.min_3 + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((m.min_3 + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS min_3,
  CASE WHEN (m.max_3 + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (m.max_3 + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((m.max_3 + 0e0)) < 1e-270 THEN ABS((m.max_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((m.max_3 + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((m.max_3 + 0e0)) < 1e-270 THEN ABS((m.max_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((m.max_3 + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((m.max_3 + 0e0)) < 1e-270 THEN ABS((m.max_3 + 0e0)) * POWER(2e0, 1000) ELSE ABS((m.max_3 + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((m.max_3 + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS max_3,
  CAST(m.nulls_4 AS CHAR) AS nulls_4,
  TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(m.min_4 AS CHAR))) AS min_4,
  TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(m.max_4 AS CHAR))) AS max_4,
  CAST(m.nulls_5 AS CHAR) AS nulls_5,
  CAST(CAST(m.sum_5 AS DECIMAL(65,0)) AS CHAR) AS sum_5,
  CAST(CAST(m.min_5 AS DECIMAL(65,0)) AS CHAR) AS min_5,
  CAST(CAST(m.max_5 AS DECIMAL(65,0)) AS CHAR) AS max_5
FROM (
  SELECT
    partition_id,
    COUNT(*) AS row_count,
    MIN(k) AS key_min,
    MAX(k) AS key_max,
    COUNT(*) - COUNT(v0) AS nulls_0,
    SUM(v0) AS sum_0,
    MIN(v0) AS min_0,
    MAX(v0) AS max_0,
    COUNT(*) - COUNT(v1) AS nulls_1,
    CAST(SUM(d1) AS SIGNED) AS characters_1,
    COUNT(*) - COUNT(v2) AS nulls_2,
    SUM(v2) AS sum_2,
    MIN(v2) AS min_2,
    MAX(v2) AS max_2,
    COUNT(*) - COUNT(v3) AS nulls_3,
    MIN(v3) AS min_3,
    MAX(v3) AS max_3,
    COUNT(*) - COUNT(v4) AS nulls_4,
    MIN(v4) AS min_4,
    MAX(v4) AS max_4,
    COUNT(*) - COUNT(v5) AS nulls_5,
    SUM(v5) AS sum_5,
    MIN(v5) AS min_5,
    MAX(v5) AS max_5
  FROM (
    SELECT
      (`id` DIV 1024 - (`id` % 1024 < 0)) AS partition_id,
      `id` AS k,
      `id` AS v0,
      `name` AS v1,
      CHAR_LENGTH(`name`) AS d1,
      `price` AS v2,
      `weight` AS v3,
      `shipped` AS v4,
      `paid` AS v5
    FROM `shop`.`orders`
    WHERE `id` >= 1024 AND `id` < 4096
  ) read_rows
  GROUP BY partition_id
) m
ORDER BY m.partition_id
