SELECT
  a_m.a_partition_id AS partition_id,
  a_m.a_row_count AS row_count,
  a_m.a_key_min AS key_min,
  a_m.a_key_max AS key_max,
  CAST(a_m.a_nulls_0 AS VARCHAR) AS nulls_0,
  CAST(CAST(a_m.a_sum_0 AS DECIMAL(38,0)) AS VARCHAR) AS sum_0,
  CAST(CAST(a_m.a_min_0 AS DECIMAL(38,0)) AS VARCHAR) AS min_0,
  CAST(CAST(a_m.a_max_0 AS DECIMAL(38,0)) AS VARCHAR) AS max_0,
  CAST(a_m.a_nulls_1 AS VARCHAR) AS nulls_1,
  CAST(a_m.a_characters_1 AS VARCHAR) AS characters_1,
  CAST(a_m.a_bytes_1 AS VARCHAR) AS bytes_1,
  CAST(a_m.a_nulls_2 AS VARCHAR) AS nulls_2,
  CAST(CAST(a_m.a_sum_2 AS DECIMAL(38,2)) AS VARCHAR) AS sum_2,
  CAST(CAST(a_m.a_min_2 AS DECIMAL(38,2)) AS VARCHAR) AS min_2,
  CAST(CAST(a_m.a_max_2 AS DECIMAL(38,2)) AS VARCHAR) AS max_2,
  CAST(a_m.a_nulls_3 AS VARCHAR) AS nulls_3,
  CASE WHEN CAST(a_m.a_min_3 AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST(a_m.a_min_3 AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST(a_m.a_min_3 AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST(a_m.a_min_3 AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST(a_m.a_min_3 AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END AS min_3,
  CASE WHEN CAST(a_m.a_max_3 AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST(a_m.a_max_3 AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST(a_m.a_max_3 AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST(a_m.a_max_3 AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST(a_m.a_max_3 AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END AS max_3,
  CAST(a_m.a_nulls_4 AS VARCHAR) AS nulls_4,
  CASE WHEN a_m.a_min_4 < '0001-01-01' AND ISFINITE(a_m.a_min_4) THEN REPLACE(CAST(a_m.a_min_4 AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(a_m.a_min_4 AS VARCHAR) END AS min_4,
  CASE WHEN a_m.a_max_4 < '0001-01-01' AND ISFINITE(a_m.a_max_4) THEN REPLACE(CAST(a_m.a_max_4 AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST(a_m.a_max_4 AS VARCHAR) END AS max_4,
  CAST(a_m.a_nulls_5 AS VARCHAR) AS nulls_5,
  CAST(a_m.a_true_5 AS VARCHAR) AS true_5
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
    CAST(SUM(a_read_rows.a_d1) AS BIGINT) AS a_characters_1,
    CAST(SUM(a_read_rows.a_b1) AS BIGINT) AS a_bytes_1,
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
    CAST(SUM(a_read_rows.a_d5) AS BIGINT) AS a_true_5
  FROM (
    SELECT
      ((((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) * (((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) % 2147483647 % 64) AS a_partition_id,
      "id" AS a_k,
      "id" AS a_v0,
      "name" AS a_v1,
      CHAR_LENGTH((CAST("name" AS VARCHAR) COLLATE C)) AS a_d1,
      STRLEN((CAST("name" AS VARCHAR) COLLATE C)) AS a_b1,
      "price" AS a_v2,
      "weight" AS a_v3,
      "shipped" AS a_v4,
      "paid" AS a_v5,
      CASE WHEN CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END = '1' THEN 1 ELSE 0 END AS a_d5
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_read_rows
  GROUP BY a_read_rows.a_partition_id
) a_m
ORDER BY a_m.a_partition_id
