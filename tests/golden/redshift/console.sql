-- auditor: audit orders, source (shop: orders), method signature, partitions range of 1,024 keys
-- Compared: id (integer), name (text), price (decimal(10,2)), weight (float64), shipped (timestamp(6)), paid (boolean)
-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key, and the signature: the sums of the two 30-bit words of the first 60 bits of each row's hash.
-- partition_count, total_rows and audit_plan let the comparison see a result that was cut short, edited or mistaken for another.
-- Save the last result with its header, run the target's statement that was printed with this one too, then:
-- auditor compare --source SOURCE_FILE --target TARGET_FILE

SET timezone TO 'UTC';
SET datestyle TO 'ISO, YMD';
SET enable_case_sensitive_identifier TO true;
SET statement_timeout TO 3600000;
BEGIN READ ONLY;
SELECT
  a_hashed_rows.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30)) AS BIGINT) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & CAST(1073741823 AS BIGINT))) AS BIGINT) AS word_1,
  COUNT(*) OVER () AS partition_count,
  SUM(COUNT(*)) OVER () AS total_rows,
  'orders/v3_2de4889b6d4c/source' AS audit_plan
FROM (
  SELECT
    CAST(CAST("id" AS BIGINT) / CAST(1024 AS BIGINT) - CASE WHEN CAST("id" AS BIGINT) % CAST(1024 AS BIGINT) < 0 THEN 1 ELSE 0 END AS BIGINT) AS a_partition_id,
    "id" AS a_k,
    STRTOL(SUBSTRING(SHA2((COALESCE(CAST("id" AS VARCHAR(41)), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(CAST(CAST(ROUND("price", 2) AS DECIMAL(19,2)) AS VARCHAR(41)), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) OR CAST("weight" AS DOUBLE PRECISION) <> CAST("weight" AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(NULLIF(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END, 0)) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS VARCHAR(41)) || 'p' || CAST(CAST(FLOOR((LN(NULLIF(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END, 0)) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR(41))) END, '|2') || '|1' || COALESCE((RTRIM(RTRIM(TO_CHAR("shipped", 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || CASE WHEN "shipped" >= '0001-01-01' THEN '' ELSE ' BC' END), '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2')), 256), 1, 15), 16) AS a_v,
      RANDOM() AS a_fence
  FROM "shop"."orders"
  WHERE 1 = 1
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id;
COMMIT;
