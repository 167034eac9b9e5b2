SELECT
  a_m.a_partition_id AS partition_id,
  a_m.a_row_count AS row_count,
  a_m.a_key_min AS key_min,
  a_m.a_key_max AS key_max,
  CAST(a_m.a_nulls_0 AS TEXT) AS nulls_0,
  CAST(ROUND(CAST(a_m.a_sum_0 AS NUMERIC), 0) AS TEXT) AS sum_0,
  CAST(ROUND(CAST(a_m.a_min_0 AS NUMERIC), 0) AS TEXT) AS min_0,
  CAST(ROUND(CAST(a_m.a_max_0 AS NUMERIC), 0) AS TEXT) AS max_0,
  CAST(a_m.a_nulls_1 AS TEXT) AS nulls_1,
  CAST(a_m.a_characters_1 AS TEXT) AS characters_1,
  CAST(a_m.a_bytes_1 AS TEXT) AS bytes_1,
  CAST(a_m.a_nulls_2 AS TEXT) AS nulls_2,
  CAST(ROUND(CAST(a_m.a_sum_2 AS NUMERIC), 2) AS TEXT) AS sum_2,
  CAST(ROUND(CAST(a_m.a_min_2 AS NUMERIC), 2) AS TEXT) AS min_2,
  CAST(ROUND(CAST(a_m.a_max_2 AS NUMERIC), 2) AS TEXT) AS max_2,
  CAST(a_m.a_nulls_3 AS TEXT) AS nulls_3,
  CASE WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST(a_m.a_min_3 AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR((LN(CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST(a_m.a_min_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS min_3,
  CASE WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST(a_m.a_max_3 AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR((LN(CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST(a_m.a_max_3 AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS max_3,
  CAST(a_m.a_nulls_4 AS TEXT) AS nulls_4,
  CAST(a_m.a_min_4 AS TEXT) AS min_4,
  CAST(a_m.a_max_4 AS TEXT) AS max_4,
  CAST(a_m.a_nulls_5 AS TEXT) AS nulls_5,
  CAST(a_m.a_true_5 AS TEXT) AS true_5
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
      CAST((CASE WHEN ISFINITE("shipped") THEN CAST("shipped" AS DATE) - DATE '1970-01-01' END) AS BIGINT) AS a_partition_id,
      "id" AS a_k,
      "id" AS a_v0,
      "name" AS a_v1,
      CHAR_LENGTH((CAST("name" AS TEXT) COLLATE "C")) AS a_d1,
      OCTET_LENGTH(CONVERT_TO((CAST("name" AS TEXT) COLLATE "C"), 'UTF8')) AS a_b1,
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
