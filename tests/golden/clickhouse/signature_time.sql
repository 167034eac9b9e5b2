SELECT
  a_hashed_rows.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  accurateCast(sum(toInt128(bitShiftRight(a_hashed_rows.a_v, 30))), 'Int64') AS word_0,
  accurateCast(sum(toInt128(bitAnd(a_hashed_rows.a_v, 1073741823))), 'Int64') AS word_1
FROM (
  SELECT
    toInt64(dateDiff('day', toDateTime64('1970-01-01 00:00:00', 0, 'UTC'), "shipped", 'UTC')) AS a_partition_id,
    "id" AS a_k,
    toInt64(bitShiftRight(reinterpretAsUInt64(reverse(substring(SHA256((COALESCE(toString("id"), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(toDecimalString("price", 2), '|2') || '|1' || COALESCE(CASE WHEN isNaN(toFloat64("weight")) THEN 'NaN' WHEN toFloat64("weight") = inf THEN 'Infinity' WHEN toFloat64("weight") = -inf THEN '-Infinity' WHEN toFloat64("weight") = 0 THEN '0' ELSE (CASE WHEN toFloat64("weight") < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END, '|2') || '|1' || COALESCE(CASE WHEN reinterpretAsInt64("shipped") >= -2208988800000000 AND reinterpretAsInt64("shipped") < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString("shipped", 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64("shipped"), 1000000)) - toInt64(reinterpretAsInt64("shipped") % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64("shipped")) || ' units of 1/1000000 s since 1970') END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 8))), 4)) AS a_v
  FROM "shop"."orders"
  WHERE 1 = 1
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id
