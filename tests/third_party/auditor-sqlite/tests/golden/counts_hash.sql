SELECT
  m.partition_id,
  m.row_count,
  m.key_min,
  m.key_max,
  CAST(m.nulls_0 AS TEXT) AS nulls_0,
  auditor_decimal(m.sum_0, 0, -1) AS sum_0,
  auditor_decimal(m.min_0, 0, -1) AS min_0,
  auditor_decimal(m.max_0, 0, -1) AS max_0,
  CAST(m.nulls_1 AS TEXT) AS nulls_1,
  CAST(m.characters_1 AS TEXT) AS characters_1,
  CAST(m.nulls_2 AS TEXT) AS nulls_2,
  auditor_decimal(m.sum_2, 2, -1) AS sum_2,
  auditor_decimal(m.min_2, 2, -1) AS min_2,
  auditor_decimal(m.max_2, 2, -1) AS max_2,
  CAST(m.nulls_3 AS TEXT) AS nulls_3,
  CASE WHEN auditor_double(m.min_3) = 9e999 THEN 'Infinity' WHEN auditor_double(m.min_3) = -9e999 THEN '-Infinity' WHEN auditor_double(m.min_3) = 0 THEN '0' ELSE (CASE WHEN auditor_double(m.min_3) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(m.min_3)) < auditor_double('1e-270') THEN ABS(auditor_double(m.min_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(m.min_3)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(m.min_3)) < auditor_double('1e-270') THEN ABS(auditor_double(m.min_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(m.min_3)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(m.min_3)) < auditor_double('1e-270') THEN ABS(auditor_double(m.min_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(m.min_3)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(m.min_3)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS min_3,
  CASE WHEN auditor_double(m.max_3) = 9e999 THEN 'Infinity' WHEN auditor_double(m.max_3) = -9e999 THEN '-Infinity' WHEN auditor_double(m.max_3) = 0 THEN '0' ELSE (CASE WHEN auditor_double(m.max_3) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(m.max_3)) < auditor_double('1e-270') THEN ABS(auditor_double(m.max_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(m.max_3)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(m.max_3)) < auditor_double('1e-270') THEN ABS(auditor_double(m.max_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(m.max_3)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(m.max_3)) < auditor_double('1e-270') THEN ABS(auditor_double(m.max_3)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(m.max_3)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(m.max_3)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS max_3,
  CAST(m.nulls_4 AS TEXT) AS nulls_4,
  auditor_moment(m.min_4, 6) AS min_4,
  auditor_moment(m.max_4, 6) AS max_4,
  CAST(m.nulls_5 AS TEXT) AS nulls_5,
  CAST(m.true_5 AS TEXT) AS true_5
FROM (
  SELECT
    partition_id,
    COUNT(*) AS row_count,
    MIN(k) AS key_min,
    MAX(k) AS key_max,
    COUNT(*) - COUNT(v0) AS nulls_0,
    auditor_sum(v0) AS sum_0,
    MIN(v0) AS min_0,
    MAX(v0) AS max_0,
    COUNT(*) - COUNT(v1) AS nulls_1,
    CAST(SUM(d1) AS BIGINT) AS characters_1,
    COUNT(*) - COUNT(v2) AS nulls_2,
    auditor_sum(v2) AS sum_2,
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
      LENGTH("name") AS d1,
      "price" AS v2,
      "weight" AS v3,
      "shipped" AS v4,
      "paid" AS v5,
      CASE WHEN CASE WHEN TYPEOF("paid") = 'text' THEN "paid" WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END = '1' THEN 1 ELSE 0 END AS d5
    FROM "shop"."orders"
    WHERE 1 = 1
  ) read_rows
  GROUP BY partition_id
) m
ORDER BY m.partition_id
