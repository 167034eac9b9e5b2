SELECT
  m.partition_id,
  m.row_count,
  m.key_min,
  m.key_max,
  CAST(m.nulls_0 AS VARCHAR) AS nulls_0,
  CAST(CAST(m.sum_0 AS DECIMAL(38,0)) AS VARCHAR) AS sum_0,
  CAST(CAST(m.min_0 AS DECIMAL(38,0)) AS VARCHAR) AS min_0,
  CAST(CAST(m.max_0 AS DECIMAL(38,0)) AS VARCHAR) AS max_0,
  CAST(m.nulls_1 AS VARCHAR) AS nulls_1,
  CAST(m.characters_1 AS VARCHAR) AS characters_1,
  CAST(m.nulls_2 AS VARCHAR) AS nulls_2,
  CAST(CAST(m.sum_2 AS DECIMAL(38,2)) AS VARCHAR) AS sum_2,
  CAST(CAST(m.min_2 AS DECIMAL(38,2)) AS VARCHAR) AS min_2,
  CAST(CAST(m.max_2 AS DECIMAL(38,2)) AS VARCHAR) AS max_2,
  CAST(m.nulls_3 AS VARCHAR) AS nulls_3,
  CASE WHEN CAST(m.min_3 AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST(m.min_3 AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST(m.min_3 AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST(m.min_3 AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST(m.min_3 AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(m.min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(m.min_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(m.min_3 AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST(m.min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(m.min_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(m.min_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST(m.min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(m.min_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(m.min_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST(m.min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END AS min_3,
  CASE WHEN CAST(m.max_3 AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST(m.max_3 AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST(m.max_3 AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST(m.max_3 AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST(m.max_3 AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(m.max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(m.max_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(m.max_3 AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST(m.max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(m.max_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(m.max_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST(m.max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(m.max_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(m.max_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST(m.max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END AS max_3,
  CAST(m.nulls_4 AS VARCHAR) AS nulls_4,
  CASE WHEN m.min_4 < '0001-01-01' AND ISFINITE(m.min_4) THEN REPLACE(CAST(m.min_4 AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(m.min_4 AS VARCHAR) END AS min_4,
  CASE WHEN m.max_4 < '0001-01-01' AND ISFINITE(m.max_4) THEN REPLACE(CAST(m.max_4 AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(m.max_4 AS VARCHAR) END AS max_4,
  CAST(m.nulls_5 AS VARCHAR) AS nulls_5,
  CAST(m.true_5 AS VARCHAR) AS true_5
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
    CAST(SUM(d1) AS BIGINT) AS characters_1,
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
    CAST(SUM(d5) AS BIGINT) AS true_5
  FROM (
    SELECT
      ((((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) * (((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) % 2147483647 % 64) AS partition_id,
      "id" AS k,
      "id" AS v0,
      "name" AS v1,
      CHAR_LENGTH(CAST("name" AS VARCHAR)) AS d1,
      "price" AS v2,
      "weight" AS v3,
      "shipped" AS v4,
      "paid" AS v5,
      CASE WHEN CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END = '1' THEN 1 ELSE 0 END AS d5
    FROM "shop"."orders"
    WHERE 1 = 1
  ) read_rows
  GROUP BY partition_id
) m
ORDER BY m.partition_id
