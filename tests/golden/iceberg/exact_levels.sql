SELECT
  a_row_words.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_row_words.a_w0) AS hashed,
  MIN(a_row_words.a_k) AS key_min,
  MAX(a_row_words.a_k) AS key_max,
  CAST(SUM(a_row_words.a_w0) AS BIGINT) AS word_0,
  CAST(SUM(a_row_words.a_w1) AS BIGINT) AS word_1,
  CAST(SUM((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_1,
  CAST(SUM((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_2,
  CAST(SUM((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_3,
  CAST(SUM((a_row_words.a_w0 * a_row_words.a_x4) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_4,
  CAST(SUM((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x4) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_5,
  CAST(SUM((((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_6,
  CAST(SUM((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_7,
  CAST(SUM((a_row_words.a_w0 * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_8,
  CAST(SUM((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_9,
  CAST(SUM((((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647) * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_10,
  CAST(SUM((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647) * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_11,
  CAST(SUM((((a_row_words.a_w0 * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_12,
  CAST(SUM((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_13,
  CAST(SUM((((((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_14,
  CAST(SUM((((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_15
FROM (
  SELECT
    a_located_rows.a_partition_id AS a_partition_id,
    a_located_rows.a_k AS a_k,
    (a_located_rows.a_v >> 30) AS a_w0,
    (a_located_rows.a_v & 1073741823) AS a_w1,
    a_located_rows.a_x AS a_x,
    ((a_located_rows.a_x * a_located_rows.a_x) % 2147483647) AS a_x2,
    ((((a_located_rows.a_x * a_located_rows.a_x) % 2147483647) * ((a_located_rows.a_x * a_located_rows.a_x) % 2147483647)) % 2147483647) AS a_x4,
    ((((((a_located_rows.a_x * a_located_rows.a_x) % 2147483647) * ((a_located_rows.a_x * a_located_rows.a_x) % 2147483647)) % 2147483647) * ((((a_located_rows.a_x * a_located_rows.a_x) % 2147483647) * ((a_located_rows.a_x * a_located_rows.a_x) % 2147483647)) % 2147483647)) % 2147483647) AS a_x8
  FROM (
    SELECT
      a_hashed_rows.a_partition_id AS a_partition_id,
      a_hashed_rows.a_k AS a_k,
      a_hashed_rows.a_x AS a_x,
      a_hashed_rows.a_v AS a_v
    FROM (
      SELECT
        CAST("id" // 1024 - CASE WHEN "id" % 1024 < 0 THEN 1 ELSE 0 END AS BIGINT) AS a_partition_id,
    CAST(("id" % 1024 + CASE WHEN "id" % 1024 < 0 THEN 1024 ELSE 0 END) AS BIGINT) + 1 AS a_x,
        "id" AS a_k,
        CAST('0x' || SUBSTR(SHA256((COALESCE(CAST("id" AS VARCHAR), '|2') || '|1' || COALESCE(REPLACE((CAST("name" AS VARCHAR) COLLATE C), '|', '|0'), '|2') || '|1' || COALESCE(CAST(CAST("price" AS DECIMAL(38,2)) AS VARCHAR), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST("weight" AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END, '|2') || '|1' || COALESCE(CASE WHEN "shipped" < '0001-01-01' AND ISFINITE("shipped") THEN REPLACE(CAST("shipped" AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST("shipped" AS VARCHAR) END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 15) AS BIGINT) AS a_v
      FROM "shop"."orders"
      WHERE "id" >= 1024 AND "id" < 4096
    ) a_hashed_rows
  ) a_located_rows
) a_row_words
GROUP BY a_row_words.a_partition_id
ORDER BY a_row_words.a_partition_id
