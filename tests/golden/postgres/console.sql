-- auditor: audit orders, source (shop: orders), method signature, partitions range of 1,024 keys
-- Compared: id (integer), name (text), price (decimal(10,2)), weight (float64), shipped (timestamp(6)), paid (boolean)
-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key, and the signature: the sums of the two 30-bit words of the first 60 bits of each row's hash.
-- partition_count, total_rows and audit_plan let the comparison see a result that was cut short, edited or mistaken for another.
-- Save the last result with its header, run the target's statement that was printed with this one too, then:
-- auditor compare --source SOURCE_FILE --target TARGET_FILE

SET client_encoding TO 'UTF8';
SET quote_all_identifiers TO off;
SET TimeZone TO 'UTC';
SET DateStyle TO 'ISO, YMD';
SET IntervalStyle TO 'postgres';
SET bytea_output TO 'hex';
SET standard_conforming_strings TO on;
SET extra_float_digits TO 1;
SET gin_fuzzy_search_limit TO 0;
SET transform_null_equals TO off;
SET array_nulls TO on;
SET lc_monetary TO 'C';
SET lc_numeric TO 'C';
SET lc_time TO 'C';
SET default_transaction_isolation TO 'read committed';
SET exit_on_error TO off;
SET idle_in_transaction_session_timeout TO 0;
SET jit TO on;
SET jit_above_cost TO 50000;
SET jit_inline_above_cost TO -1;
SET jit_optimize_above_cost TO 200000;
SET lock_timeout TO 10000;
SET statement_timeout TO 3600000;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
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
    CAST("id" / 1024 - CASE WHEN "id" % 1024 < 0 THEN 1 ELSE 0 END AS BIGINT) AS a_partition_id,
    "id" AS a_k,
    CAST(CAST('x' || ENCODE(SUBSTR(SHA256(TEXTSEND((COALESCE(CAST("id" AS TEXT), '|2') || '|1' || COALESCE(REPLACE((CAST("name" AS TEXT) COLLATE "C"), '|', '|0'), '|2') || '|1' || COALESCE(CAST("price" AS TEXT), '|2') || '|1' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END, '|2') || '|1' || COALESCE(CAST("shipped" AS TEXT), '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2')))), 1, 8), 'hex') AS BIT(60)) AS BIGINT) AS a_v
  FROM "shop"."orders"
  WHERE 1 = 1
  OFFSET '0'
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id;
COMMIT;
