SELECT
  (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30)) AS BIGINT) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823)) AS BIGINT) AS word_1,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * a_hashed_rows.a_x) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_1,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_2,
  CAST(SUM(((((a_hashed_rows.a_v >> 30) * a_hashed_rows.a_x) % 2147483647) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_3,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * (((a_hashed_rows.a_x * a_hashed_rows.a_x) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_4,
  CAST(SUM(((((a_hashed_rows.a_v >> 30) * a_hashed_rows.a_x) % 2147483647) * (((a_hashed_rows.a_x * a_hashed_rows.a_x) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_5
FROM (
  SELECT
    (((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) AS a_kv,
    (((((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) & 32767) + 1) AS a_x,
    "id" AS a_k,
    CAST(CAST('x' || ENCODE(SUBSTR(SHA256(TEXTSEND((COALESCE(CAST("id" AS TEXT), '|2') || '|1' || COALESCE(REPLACE((CAST("name" AS TEXT) COLLATE "C"), '|', '|0'), '|2') || '|1' || COALESCE(CAST("price" AS TEXT), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END, '|2') || '|1' || COALESCE(CAST("shipped" AS TEXT), '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2')))), 1, 8), 'hex') AS BIT(60)) AS BIGINT) AS a_v
  FROM "shop"."orders"
  WHERE 1 = 1
  OFFSET '0'
) a_hashed_rows
GROUP BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
ORDER BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
