-- auditor: audit orders, source (shop: orders), method signature, partitions range of 1,024 keys
-- Compared: id (integer), name (text), price (decimal(10,2)), weight (float64), shipped (timestamptz(6)), paid (boolean)
-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key, and the signature: the sums of the two 30-bit words of the first 60 bits of each row's hash.
-- partition_count, total_rows and audit_plan let the comparison see a result that was cut short, edited or mistaken for another.
-- Save the last result with its header, run the target's statement that was printed with this one too, then:
-- auditor compare --source SOURCE_FILE --target TARGET_FILE

SET final = '1';
SET do_not_merge_across_partitions_select_final = '0';
SET defer_partition_pruning_after_final = '1';
SET use_skip_indexes_if_final = '0';
SET optimize_move_to_prewhere_if_final = '0';
SET apply_prewhere_after_final = '1';
SET apply_row_policy_after_final = '1';
SET query_plan_optimize_lazy_final = '0';
SET apply_deleted_mask = '1';
SET apply_mutations_on_fly = '0';
SET select_sequential_consistency = '1';
SET additional_table_filters = '{}';
SET additional_result_filter = '';
SET stream_like_engine_allow_direct_select = '0';
SET use_query_cache = '0';
SET use_query_condition_cache = '0';
SET skip_unavailable_shards = '0';
SET optimize_skip_unused_shards = '0';
SET distributed_group_by_no_merge = '0';
SET optimize_distributed_group_by_sharding_key = '0';
SET max_parallel_replicas = '1';
SET enable_parallel_replicas = '0';
SET limit = '0';
SET offset = '0';
SET extremes = '0';
SET max_result_rows = '0';
SET max_result_bytes = '0';
SET partial_result_on_first_cancel = '0';
SET read_overflow_mode = 'throw';
SET sort_overflow_mode = 'throw';
SET result_overflow_mode = 'throw';
SET distinct_overflow_mode = 'throw';
SET set_overflow_mode = 'throw';
SET join_overflow_mode = 'throw';
SET transfer_overflow_mode = 'throw';
SET group_by_overflow_mode = 'throw';
SET timeout_overflow_mode = 'throw';
SET read_overflow_mode_leaf = 'throw';
SET timeout_overflow_mode_leaf = 'throw';
SET dialect = 'clickhouse';
SET enable_analyzer = '1';
SET prefer_column_name_to_alias = '1';
SET enable_positional_arguments = '1';
SET enable_order_by_all = '0';
SET asterisk_include_materialized_columns = '0';
SET asterisk_include_alias_columns = '0';
SET aggregate_functions_null_for_empty = '1';
SET empty_result_for_aggregation_by_empty_set = '0';
SET count_distinct_implementation = 'uniqExact';
SET group_by_use_nulls = '0';
SET join_use_nulls = '1';
SET join_default_strictness = 'ALL';
SET transform_null_in = '0';
SET union_default_mode = '';
SET use_variant_as_common_type = '0';
SET cast_keep_nullable = '1';
SET short_circuit_function_evaluation = 'enable';
SET decimal_check_overflow = '1';
SET precise_float_parsing = '1';
SET date_time_overflow_behavior = 'throw';
SET date_time_input_format = 'basic';
SET date_time_output_format = 'simple';
SET cast_string_to_date_time_mode = 'basic';
SET session_timezone = 'UTC';
SET output_format_native_encode_types_in_binary_format = '0';
SET max_query_size = '16777216';
SET max_ast_elements = '5000000';
SET max_expanded_ast_elements = '5000000';
SET max_ast_depth = '10000';
SET max_parser_depth = '10000';
SET max_execution_time = '3600';
SET lock_acquire_timeout = '10';
SELECT
  a_hashed_rows.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  CASE WHEN COUNT(*) <= 2147483648 THEN COUNT(a_hashed_rows.a_v) ELSE 0 END AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  sum(toInt64(bitShiftRight(a_hashed_rows.a_v, 30))) AS word_0,
  sum(toInt64(bitAnd(a_hashed_rows.a_v, 1073741823))) AS word_1,
  COUNT(*) OVER () AS partition_count,
  SUM(COUNT(*)) OVER () AS total_rows,
  'orders/v3_351e6cd5d8fd/source' AS audit_plan
FROM (
  SELECT
    (toInt64(intDiv("id", 1024)) - toInt64("id" % 1024 < 0)) AS a_partition_id,
    "id" AS a_k,
    toInt64(bitShiftRight(reinterpretAsUInt64(reverse(substring(SHA256((COALESCE(toString("id"), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(toDecimalString("price", 2), '|2') || '|1' || COALESCE(CASE WHEN isNaN(toFloat64("weight")) THEN 'NaN' WHEN toFloat64("weight") = inf THEN 'Infinity' WHEN toFloat64("weight") = -inf THEN '-Infinity' WHEN toFloat64("weight") = 0 THEN '0' ELSE (CASE WHEN toFloat64("weight") < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END, '|2') || '|1' || COALESCE(CASE WHEN reinterpretAsInt64("shipped") >= -2208988800000000 AND reinterpretAsInt64("shipped") < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString("shipped", 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64("shipped"), 1000000)) - toInt64(reinterpretAsInt64("shipped") % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64("shipped")) || ' units of 1/1000000 s since 1970') END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 8))), 4)) AS a_v
  FROM "shop"."orders"
  WHERE 1 = 1
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id;
