SELECT
  a_hashed_rows.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  CASE WHEN COUNT(*) <= 2147483648 THEN COUNT(a_hashed_rows.a_v) ELSE 0 END AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  sum(toInt64(bitShiftRight(a_hashed_rows.a_v, 30))) AS word_0,
  sum(toInt64(bitAnd(a_hashed_rows.a_v, 1073741823))) AS word_1,
  sum(toInt64((bitShiftRight(a_hashed_rows.a_v, 30) * a_hashed_rows.a_x) % 2147483647)) % 2147483647 AS syndrome_1,
  sum(toInt64((bitShiftRight(a_hashed_rows.a_v, 30) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647 AS syndrome_2,
  sum(toInt64((((bitShiftRight(a_hashed_rows.a_v, 30) * a_hashed_rows.a_x) % 2147483647) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647 AS syndrome_3,
  sum(toInt64((bitShiftRight(a_hashed_rows.a_v, 30) * (((a_hashed_rows.a_x * a_hashed_rows.a_x) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647)) % 2147483647 AS syndrome_4,
  sum(toInt64((((bitShiftRight(a_hashed_rows.a_v, 30) * a_hashed_rows.a_x) % 2147483647) * (((a_hashed_rows.a_x * a_hashed_rows.a_x) * (a_hashed_rows.a_x * a_hashed_rows.a_x)) % 2147483647)) % 2147483647)) % 2147483647 AS syndrome_5
FROM (
  SELECT
    (toInt64(intDiv("id", 1024)) - toInt64("id" % 1024 < 0)) AS a_partition_id,
    accurateCastOrNull(("id" % 1024 + CASE WHEN "id" % 1024 < 0 THEN 1024 ELSE 0 END), 'Int64') + 1 AS a_x,
    "id" AS a_k,
    toInt64(bitShiftRight(reinterpretAsUInt64(reverse(substring(SHA256((COALESCE(toString("id"), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(toDecimalString("price", 2), '|2') || '|1' || COALESCE(CASE WHEN isNaN(toFloat64("weight")) THEN 'NaN' WHEN toFloat64("weight") = inf THEN 'Infinity' WHEN toFloat64("weight") = -inf THEN '-Infinity' WHEN toFloat64("weight") = 0 THEN '0' ELSE (CASE WHEN toFloat64("weight") < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END, '|2') || '|1' || COALESCE(CASE WHEN reinterpretAsInt64("shipped") >= -2208988800000000 AND reinterpretAsInt64("shipped") < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString("shipped", 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64("shipped"), 1000000)) - toInt64(reinterpretAsInt64("shipped") % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64("shipped")) || ' units of 1/1000000 s since 1970') END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 8))), 4)) AS a_v
  FROM "shop"."orders"
  WHERE "id" >= 1024 AND "id" < 4096
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id
