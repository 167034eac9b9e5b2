-- auditor: audit orders, source (shop: orders), method signature, partitions range of 1,024 keys
-- Compared: id (integer), name (text), price (decimal(10,2)), weight (float64), shipped (timestamp(6)), paid (integer)
-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key, and the signature: the sums of the two 30-bit words of the first 60 bits of each row's hash.
-- partition_count, total_rows and audit_plan let the comparison see a result that was cut short, edited or mistaken for another.
-- Save the last result with its header, run the target's statement that was printed with this one too, then:
-- auditor compare --source SOURCE_FILE --target TARGET_FILE

SET NAMES utf8mb4 COLLATE utf8mb4_0900_ai_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', group_concat_max_len = 67108864, sql_select_limit = 18446744073709551615, max_join_size = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, sql_auto_is_null = 0, max_sort_length = 1024, div_precision_increment = 4, default_week_format = 0, lc_time_names = 'en_US', completion_type = 'NO_CHAIN', sql_quote_show_create = 1, default_tmp_storage_engine = 'InnoDB', transaction_isolation = 'REPEATABLE-READ', use_secondary_engine = 'OFF', windowing_use_high_precision = 1, timestamp = DEFAULT, max_execution_time = 3600000, lock_wait_timeout = 10, innodb_lock_wait_timeout = 10, wait_timeout = 86400, net_read_timeout = 600, net_write_timeout = 600;
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;
SELECT
  a_hashed_rows.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  CASE WHEN COUNT(*) <= 4194304 THEN COUNT(a_hashed_rows.a_v) ELSE 0 END AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30) + 0e0) AS SIGNED) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823) + 0e0) AS SIGNED) AS word_1,
  COUNT(*) OVER () AS partition_count,
  SUM(COUNT(*)) OVER () AS total_rows,
  'orders/v3_bdffb56ed4de/source' AS audit_plan
FROM (
  SELECT
    (`id` DIV 1024 - (`id` % 1024 < 0)) AS a_partition_id,
    `id` AS a_k,
    CAST(CONV(LEFT(SHA2(CONCAT(COALESCE(`id`, '|2'), '|1', CASE WHEN `name` IS NULL THEN '|2' ELSE REPLACE((`name` COLLATE utf8mb4_bin), '|', '|0') END, '|1', COALESCE(`price`, '|2'), '|1', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|2'), '|1', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), '|2'), '|1', COALESCE(`paid`, '|2')), 256), 15), 16, 10) AS SIGNED) AS a_v
  FROM `shop`.`orders`
  WHERE 1 = 1
  LIMIT 18446744073709551615
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id;
COMMIT;
