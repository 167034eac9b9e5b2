SELECT
  a_row_words.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  CASE WHEN COUNT(*) <= 2147483648 THEN COUNT(a_row_words.a_w0) ELSE 0 END AS hashed,
  MIN(a_row_words.a_k) AS key_min,
  MAX(a_row_words.a_k) AS key_max,
  sum(toInt64(a_row_words.a_w0)) AS word_0,
  sum(toInt64(a_row_words.a_w1)) AS word_1,
  sum(toInt64((a_row_words.a_w0 * a_row_words.a_x) % 2147483647)) % 2147483647 AS syndrome_1,
  sum(toInt64((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647)) % 2147483647 AS syndrome_2,
  sum(toInt64((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647)) % 2147483647 AS syndrome_3,
  sum(toInt64((a_row_words.a_w0 * a_row_words.a_x4) % 2147483647)) % 2147483647 AS syndrome_4,
  sum(toInt64((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x4) % 2147483647)) % 2147483647 AS syndrome_5,
  sum(toInt64((((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647)) % 2147483647 AS syndrome_6,
  sum(toInt64((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647)) % 2147483647 AS syndrome_7,
  sum(toInt64((a_row_words.a_w0 * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_8,
  sum(toInt64((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_9,
  sum(toInt64((((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647) * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_10,
  sum(toInt64((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647) * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_11,
  sum(toInt64((((a_row_words.a_w0 * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_12,
  sum(toInt64((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_13,
  sum(toInt64((((((a_row_words.a_w0 * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_14,
  sum(toInt64((((((((a_row_words.a_w0 * a_row_words.a_x) % 2147483647) * a_row_words.a_x2) % 2147483647) * a_row_words.a_x4) % 2147483647) * a_row_words.a_x8) % 2147483647)) % 2147483647 AS syndrome_15
FROM (
  SELECT
    a_located_rows.a_partition_id AS a_partition_id,
    a_located_rows.a_k AS a_k,
    bitShiftRight(a_located_rows.a_v, 30) AS a_w0,
    bitAnd(a_located_rows.a_v, 1073741823) AS a_w1,
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
        (toInt64(intDiv("id", 1024)) - toInt64("id" % 1024 < 0)) AS a_partition_id,
    accurateCastOrNull(("id" % 1024 + CASE WHEN "id" % 1024 < 0 THEN 1024 ELSE 0 END), 'Int64') + 1 AS a_x,
        "id" AS a_k,
        toInt64(bitShiftRight(reinterpretAsUInt64(reverse(substring(SHA256((COALESCE(toString("id"), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(toDecimalString("price", 2), '|2') || '|1' || COALESCE(CASE WHEN isNaN(toFloat64("weight")) THEN 'NaN' WHEN toFloat64("weight") = inf THEN 'Infinity' WHEN toFloat64("weight") = -inf THEN '-Infinity' WHEN toFloat64("weight") = 0 THEN '0' ELSE (CASE WHEN toFloat64("weight") < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END, '|2') || '|1' || COALESCE(CASE WHEN reinterpretAsInt64("shipped") >= -2208988800000000 AND reinterpretAsInt64("shipped") < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString("shipped", 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64("shipped"), 1000000)) - toInt64(reinterpretAsInt64("shipped") % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64("shipped")) || ' units of 1/1000000 s since 1970') END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 8))), 4)) AS a_v
      FROM "shop"."orders"
      WHERE "id" >= 1024 AND "id" < 4096
    ) a_hashed_rows
  ) a_located_rows
) a_row_words
GROUP BY a_row_words.a_partition_id
ORDER BY a_row_words.a_partition_id
