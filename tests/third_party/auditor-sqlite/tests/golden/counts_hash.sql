SELECT
  a_m.a_partition_id AS partition_id,
  a_m.a_row_count AS row_count,
  a_m.a_key_min AS key_min,
  a_m.a_key_max AS key_max,
  CAST(a_m.a_nulls_0 AS TEXT) AS nulls_0,
  auditor_decimal(a_m.a_sum_0, 0, -1) AS sum_0,
  auditor_decimal(a_m.a_min_0, 0, -1) AS min_0,
  auditor_decimal(a_m.a_max_0, 0, -1) AS max_0,
  CAST(a_m.a_nulls_1 AS TEXT) AS nulls_1,
  CAST(a_m.a_characters_1 AS TEXT) AS characters_1,
  CAST(a_m.a_bytes_1 AS TEXT) AS bytes_1,
  CAST(a_m.a_nulls_2 AS TEXT) AS nulls_2,
  auditor_decimal(a_m.a_sum_2, 2, -1) AS sum_2,
  auditor_decimal(a_m.a_min_2, 2, -1) AS min_2,
  auditor_decimal(a_m.a_max_2, 2, -1) AS max_2,
  CAST(a_m.a_nulls_3 AS TEXT) AS nulls_3,
  CASE WHEN auditor_double(a_m.a_min_3) = 9e999 THEN 'Infinity' WHEN auditor_double(a_m.a_min_3) = -9e999 THEN '-Infinity' WHEN auditor_double(a_m.a_min_3) = 0 THEN '0' ELSE (CASE WHEN auditor_double(a_m.a_min_3) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(a_m.a_min_3)) < auditor_double('1e-270') THEN ABS(auditor_double(a_m.a_min_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_m.a_min_3)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_m.a_min_3)) < auditor_double('1e-270') THEN ABS(auditor_double(a_m.a_min_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_m.a_min_3)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_m.a_min_3)) < auditor_double('1e-270') THEN ABS(auditor_double(a_m.a_min_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_m.a_min_3)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(a_m.a_min_3)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS min_3,
  CASE WHEN auditor_double(a_m.a_max_3) = 9e999 THEN 'Infinity' WHEN auditor_double(a_m.a_max_3) = -9e999 THEN '-Infinity' WHEN auditor_double(a_m.a_max_3) = 0 THEN '0' ELSE (CASE WHEN auditor_double(a_m.a_max_3) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(a_m.a_max_3)) < auditor_double('1e-270') THEN ABS(auditor_double(a_m.a_max_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_m.a_max_3)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_m.a_max_3)) < auditor_double('1e-270') THEN ABS(auditor_double(a_m.a_max_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_m.a_max_3)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_m.a_max_3)) < auditor_double('1e-270') THEN ABS(auditor_double(a_m.a_max_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_m.a_max_3)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(a_m.a_max_3)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS max_3,
  CAST(a_m.a_nulls_4 AS TEXT) AS nulls_4,
  auditor_moment(a_m.a_min_4, 6) AS min_4,
  auditor_moment(a_m.a_max_4, 6) AS max_4,
  CAST(a_m.a_nulls_5 AS TEXT) AS nulls_5,
  CAST(a_m.a_true_5 AS TEXT) AS true_5
FROM (
  SELECT
    a_read_rows.a_partition_id AS a_partition_id,
    COUNT(*) AS a_row_count,
    MIN(a_read_rows.a_k) AS a_key_min,
    MAX(a_read_rows.a_k) AS a_key_max,
    COUNT(*) - COUNT(a_read_rows.a_v0) AS a_nulls_0,
    auditor_sum(a_read_rows.a_v0) AS a_sum_0,
    MIN(a_read_rows.a_v0) AS a_min_0,
    MAX(a_read_rows.a_v0) AS a_max_0,
    COUNT(*) - COUNT(a_read_rows.a_v1) AS a_nulls_1,
    CAST(SUM(a_read_rows.a_d1) AS BIGINT) AS a_characters_1,
    CAST(SUM(a_read_rows.a_b1) AS BIGINT) AS a_bytes_1,
    COUNT(*) - COUNT(a_read_rows.a_v2) AS a_nulls_2,
    auditor_sum(a_read_rows.a_v2) AS a_sum_2,
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
      LENGTH("name") AS a_d1,
      LENGTH(CAST("name" AS BLOB)) AS a_b1,
      "price" AS a_v2,
      "weight" AS a_v3,
      "shipped" AS a_v4,
      "paid" AS a_v5,
      CASE WHEN CASE WHEN TYPEOF("paid") = 'text' THEN "paid" WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END = '1' THEN 1 ELSE 0 END AS a_d5
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_read_rows
  GROUP BY a_read_rows.a_partition_id
) a_m
ORDER BY a_m.a_partition_id
