-- auditor: audit orders, source (shop: orders), method signature, partitions range of 1,024 keys
-- Compared: id (integer), name (text), price (decimal(10,2)), weight (float64), shipped (timestamp(6)), paid (boolean)
-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key, and the signature: the sums of the two 30-bit words of the first 60 bits of each row's hash.
-- partition_count, total_rows and audit_plan let the comparison see a result that was cut short, edited or mistaken for another.
-- Save the last result with its header, run the target's statement that was printed with this one too, then:
-- auditor compare --source SOURCE_FILE --target TARGET_FILE

SET TimeZone = 'UTC';
SET enable_progress_bar = false;
BEGIN TRANSACTION;
SELECT
  a_hashed_rows.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30)) AS BIGINT) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823)) AS BIGINT) AS word_1,
  COUNT(*) OVER () AS partition_count,
  SUM(COUNT(*)) OVER () AS total_rows,
  'orders/v3_2de4889b6d4c/source' AS audit_plan
FROM (
  SELECT
    CAST("id" // 1024 - CASE WHEN "id" % 1024 < 0 THEN 1 ELSE 0 END AS BIGINT) AS a_partition_id,
    "id" AS a_k,
    CAST('0x' || SUBSTR(SHA256((COALESCE(CAST("id" AS VARCHAR), '|2') || '|1' || COALESCE(REPLACE((CAST("name" AS VARCHAR) COLLATE C), '|', '|0'), '|2') || '|1' || COALESCE(CAST(CAST("price" AS DECIMAL(38,2)) AS VARCHAR), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE) = CAST('NaN' AS DOUBLE) THEN 'NaN' WHEN CAST("weight" AS DOUBLE) = CAST('Infinity' AS DOUBLE) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE) = CAST('-Infinity' AS DOUBLE) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) * POWER(CAST('2' AS DOUBLE), 53 - FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE))) AS BIGINT) AS VARCHAR) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN ABS(CAST("weight" AS DOUBLE)) * POWER(CAST('2' AS DOUBLE), 1000) ELSE ABS(CAST("weight" AS DOUBLE)) END) + CAST('0.3721' AS DOUBLE)) - CASE WHEN ABS(CAST("weight" AS DOUBLE)) < CAST('1e-270' AS DOUBLE) THEN 1000 ELSE 0 END AS BIGINT) AS VARCHAR)) END, '|2') || '|1' || COALESCE(CASE WHEN "shipped" < '0001-01-01' AND ISFINITE("shipped") THEN REPLACE(CAST("shipped" AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST("shipped" AS VARCHAR) END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 15) AS BIGINT) AS a_v
  FROM "shop"."orders"
  WHERE 1 = 1
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id;
COMMIT;
