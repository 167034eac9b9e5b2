SELECT
  a_m.a_partition_id AS partition_id,
  a_m.a_row_count AS row_count,
  a_m.a_key_min AS key_min,
  a_m.a_key_max AS key_max,
  CAST(a_m.a_nulls_0 AS VARCHAR(41)) AS nulls_0,
  CAST(CAST(ROUND(a_m.a_sum_0, 0) AS DECIMAL(38,0)) AS VARCHAR(41)) AS sum_0,
  CAST(CAST(a_m.a_min_0 AS DECIMAL(20,0)) AS VARCHAR(41)) AS min_0,
  CAST(CAST(a_m.a_max_0 AS DECIMAL(20,0)) AS VARCHAR(41)) AS max_0,
  CAST(a_m.a_nulls_1 AS VARCHAR(41)) AS nulls_1,
  CAST(a_m.a_characters_1 AS VARCHAR(41)) AS characters_1,
  CAST(a_m.a_bytes_1 AS VARCHAR(41)) AS bytes_1,
  CAST(a_m.a_nulls_2 AS VARCHAR(41)) AS nulls_2,
  CAST(CAST(ROUND(a_m.a_sum_2, 2) AS DECIMAL(38,2)) AS VARCHAR(41)) AS sum_2,
  CAST(CAST(ROUND(a_m.a_min_2, 2) AS DECIMAL(38,2)) AS VARCHAR(41)) AS min_2,
  CAST(CAST(ROUND(a_m.a_max_2, 2) AS DECIMAL(38,2)) AS VARCHAR(41)) AS max_2,
  CAST(a_m.a_nulls_3 AS VARCHAR(41)) AS nulls_3,
  CASE WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) OR CAST(a_m.a_min_3 AS DOUBLE PRECISION) <> CAST(a_m.a_min_3 AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(NULLIF(CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) END, 0)) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS VARCHAR(41)) || 'p' || CAST(CAST(FLOOR((LN(NULLIF(CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) END, 0)) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR(41))) END AS min_3,
  CASE WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) OR CAST(a_m.a_max_3 AS DOUBLE PRECISION) <> CAST(a_m.a_max_3 AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(NULLIF(CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) END, 0)) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS VARCHAR(41)) || 'p' || CAST(CAST(FLOOR((LN(NULLIF(CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) END, 0)) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR(41))) END AS max_3,
  CAST(a_m.a_nulls_4 AS VARCHAR(41)) AS nulls_4,
  (RTRIM(RTRIM(TO_CHAR(a_m.a_min_4, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || CASE WHEN a_m.a_min_4 >= '0001-01-01' THEN '' ELSE ' BC' END) AS min_4,
  (RTRIM(RTRIM(TO_CHAR(a_m.a_max_4, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || CASE WHEN a_m.a_max_4 >= '0001-01-01' THEN '' ELSE ' BC' END) AS max_4,
  CAST(a_m.a_nulls_5 AS VARCHAR(41)) AS nulls_5,
  CAST(a_m.a_true_5 AS VARCHAR(41)) AS true_5
FROM (
  SELECT
    a_read_rows.a_partition_id AS a_partition_id,
    COUNT(*) AS a_row_count,
    MIN(a_read_rows.a_k) AS a_key_min,
    MAX(a_read_rows.a_k) AS a_key_max,
    COUNT(*) - COUNT(a_read_rows.a_v0) AS a_nulls_0,
    SUM(CAST(a_read_rows.a_v0 AS DECIMAL(38,0))) AS a_sum_0,
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
      CAST(CAST("id" AS BIGINT) / CAST(1024 AS BIGINT) - CASE WHEN CAST("id" AS BIGINT) % CAST(1024 AS BIGINT) < 0 THEN 1 ELSE 0 END AS BIGINT) AS a_partition_id,
      "id" AS a_k,
      "id" AS a_v0,
      "name" AS a_v1,
      CHAR_LENGTH("name") AS a_d1,
      OCTET_LENGTH("name") AS a_b1,
      "price" AS a_v2,
      "weight" AS a_v3,
      "shipped" AS a_v4,
      "paid" AS a_v5,
      CASE WHEN CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END = '1' THEN 1 ELSE 0 END AS a_d5
    FROM "shop"."orders"
    WHERE "id" >= 1024 AND "id" < 4096
  ) a_read_rows
  GROUP BY a_read_rows.a_partition_id
) a_m
ORDER BY a_m.a_partition_id
