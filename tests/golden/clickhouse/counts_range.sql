SELECT
  a_m.a_partition_id AS partition_id,
  a_m.a_row_count AS row_count,
  a_m.a_key_min AS key_min,
  a_m.a_key_max AS key_max,
  toString(a_m.a_nulls_0) AS nulls_0,
  toString(round(a_m.a_sum_0, 0)) AS sum_0,
  toString(round(a_m.a_min_0, 0)) AS min_0,
  toString(round(a_m.a_max_0, 0)) AS max_0,
  toString(a_m.a_nulls_1) AS nulls_1,
  toString(a_m.a_characters_1) AS characters_1,
  toString(a_m.a_bytes_1) AS bytes_1,
  toString(a_m.a_nulls_2) AS nulls_2,
  toDecimalString(round(a_m.a_sum_2, 2), 2) AS sum_2,
  toDecimalString(round(a_m.a_min_2, 2), 2) AS min_2,
  toDecimalString(round(a_m.a_max_2, 2), 2) AS max_2,
  toString(a_m.a_nulls_3) AS nulls_3,
  CASE WHEN isNaN(toFloat64(a_m.a_min_3)) THEN 'NaN' WHEN toFloat64(a_m.a_min_3) = inf THEN 'Infinity' WHEN toFloat64(a_m.a_min_3) = -inf THEN '-Infinity' WHEN toFloat64(a_m.a_min_3) = 0 THEN '0' ELSE (CASE WHEN toFloat64(a_m.a_min_3) < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64(a_m.a_min_3)) < toFloat64('1e-270') THEN ABS(toFloat64(a_m.a_min_3)) * exp2(1000) ELSE ABS(toFloat64(a_m.a_min_3)) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_m.a_min_3)) < toFloat64('1e-270') THEN ABS(toFloat64(a_m.a_min_3)) * exp2(1000) ELSE ABS(toFloat64(a_m.a_min_3)) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_m.a_min_3)) < toFloat64('1e-270') THEN ABS(toFloat64(a_m.a_min_3)) * exp2(1000) ELSE ABS(toFloat64(a_m.a_min_3)) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64(a_m.a_min_3)) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END AS min_3,
  CASE WHEN isNaN(toFloat64(a_m.a_max_3)) THEN 'NaN' WHEN toFloat64(a_m.a_max_3) = inf THEN 'Infinity' WHEN toFloat64(a_m.a_max_3) = -inf THEN '-Infinity' WHEN toFloat64(a_m.a_max_3) = 0 THEN '0' ELSE (CASE WHEN toFloat64(a_m.a_max_3) < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64(a_m.a_max_3)) < toFloat64('1e-270') THEN ABS(toFloat64(a_m.a_max_3)) * exp2(1000) ELSE ABS(toFloat64(a_m.a_max_3)) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_m.a_max_3)) < toFloat64('1e-270') THEN ABS(toFloat64(a_m.a_max_3)) * exp2(1000) ELSE ABS(toFloat64(a_m.a_max_3)) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_m.a_max_3)) < toFloat64('1e-270') THEN ABS(toFloat64(a_m.a_max_3)) * exp2(1000) ELSE ABS(toFloat64(a_m.a_max_3)) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64(a_m.a_max_3)) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END AS max_3,
  toString(a_m.a_nulls_4) AS nulls_4,
  CASE WHEN reinterpretAsInt64(a_m.a_min_4) >= -2208988800000000 AND reinterpretAsInt64(a_m.a_min_4) < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_m.a_min_4, 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString(a_m.a_min_4, 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64(a_m.a_min_4), 1000000)) - toInt64(reinterpretAsInt64(a_m.a_min_4) % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_m.a_min_4, 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64(a_m.a_min_4)) || ' units of 1/1000000 s since 1970') END AS min_4,
  CASE WHEN reinterpretAsInt64(a_m.a_max_4) >= -2208988800000000 AND reinterpretAsInt64(a_m.a_max_4) < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_m.a_max_4, 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString(a_m.a_max_4, 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64(a_m.a_max_4), 1000000)) - toInt64(reinterpretAsInt64(a_m.a_max_4) % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_m.a_max_4, 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64(a_m.a_max_4)) || ' units of 1/1000000 s since 1970') END AS max_4,
  toString(a_m.a_nulls_5) AS nulls_5,
  toString(a_m.a_true_5) AS true_5
FROM (
  SELECT
    a_read_rows.a_partition_id AS a_partition_id,
    COUNT(*) AS a_row_count,
    MIN(a_read_rows.a_k) AS a_key_min,
    MAX(a_read_rows.a_k) AS a_key_max,
    COUNT(*) - COUNT(a_read_rows.a_v0) AS a_nulls_0,
    sum(toInt128(a_read_rows.a_v0)) AS a_sum_0,
    MIN(a_read_rows.a_v0) AS a_min_0,
    MAX(a_read_rows.a_v0) AS a_max_0,
    COUNT(*) - COUNT(a_read_rows.a_v1) AS a_nulls_1,
    accurateCast(sum(toInt128(a_read_rows.a_d1)), 'Int64') AS a_characters_1,
    accurateCast(sum(toInt128(a_read_rows.a_b1)), 'Int64') AS a_bytes_1,
    COUNT(*) - COUNT(a_read_rows.a_v2) AS a_nulls_2,
    sum(toDecimal256(a_read_rows.a_v2, 2)) AS a_sum_2,
    MIN(a_read_rows.a_v2) AS a_min_2,
    MAX(a_read_rows.a_v2) AS a_max_2,
    COUNT(*) - COUNT(a_read_rows.a_v3) AS a_nulls_3,
    MIN(a_read_rows.a_v3) AS a_min_3,
    MAX(a_read_rows.a_v3) AS a_max_3,
    COUNT(*) - COUNT(a_read_rows.a_v4) AS a_nulls_4,
    MIN(a_read_rows.a_v4) AS a_min_4,
    MAX(a_read_rows.a_v4) AS a_max_4,
    COUNT(*) - COUNT(a_read_rows.a_v5) AS a_nulls_5,
    accurateCast(sum(toInt128(a_read_rows.a_d5)), 'Int64') AS a_true_5
  FROM (
    SELECT
      (toInt64(intDiv("id", 1024)) - toInt64("id" % 1024 < 0)) AS a_partition_id,
      "id" AS a_k,
      "id" AS a_v0,
      "name" AS a_v1,
      lengthUTF8("name") AS a_d1,
      length("name") AS a_b1,
      "price" AS a_v2,
      "weight" AS a_v3,
      "shipped" AS a_v4,
      "paid" AS a_v5,
      CASE WHEN CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END = '1' THEN 1 ELSE 0 END AS a_d5
    FROM "shop"."orders"
    WHERE "id" >= 1024 AND "id" < 4096
  ) a_read_rows
  GROUP BY a_read_rows.a_partition_id
) a_m
ORDER BY a_m.a_partition_id
