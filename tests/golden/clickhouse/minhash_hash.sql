SELECT
  a_row_words.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_row_words.a_w3) AS hashed,
  MIN(a_row_words.a_k) AS key_min,
  MAX(a_row_words.a_k) AS key_max,
  accurateCast(sum(toInt128(a_row_words.a_w0)), 'Int64') AS word_0,
  accurateCast(sum(toInt128(a_row_words.a_w1)), 'Int64') AS word_1,
  accurateCast(sum(toInt128(a_row_words.a_w2)), 'Int64') AS word_2,
  accurateCast(sum(toInt128(a_row_words.a_w3)), 'Int64') AS word_3,
  MIN(bitAnd(((a_row_words.a_w3 * 1285533145 + 1655539436) % 2305843009213693951), 2147483647)) AS minhash_0,
  MIN(bitAnd(((a_row_words.a_w3 * 1350832907 + 492214603) % 2305843009213693951), 2147483647)) AS minhash_1,
  MIN(bitAnd(((a_row_words.a_w3 * 1235092432 + 1629043653) % 2305843009213693951), 2147483647)) AS minhash_2,
  MIN(bitAnd(((a_row_words.a_w3 * 176256801 + 205743474) % 2305843009213693951), 2147483647)) AS minhash_3
FROM (
  SELECT
    (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS a_partition_id,
    a_hashed_rows.a_k AS a_k,
    reinterpretAsInt64(reverse(unhex(leftPad(substring(a_hashed_rows.a_h, 1, 8), 16, '0')))) AS a_w0,
    reinterpretAsInt64(reverse(unhex(leftPad(substring(a_hashed_rows.a_h, 9, 8), 16, '0')))) AS a_w1,
    reinterpretAsInt64(reverse(unhex(leftPad(substring(a_hashed_rows.a_h, 17, 8), 16, '0')))) AS a_w2,
    reinterpretAsInt64(reverse(unhex(leftPad(substring(a_hashed_rows.a_h, 25, 8), 16, '0')))) AS a_w3
  FROM (
    SELECT
      (((accurateCastOrNull("id" % 1168518413, 'Int64') + 1168518413) * 346030291) % 2147483647) AS a_kv,
      "id" AS a_k,
      lower(hex(SHA256((COALESCE(toString("id"), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(toDecimalString("price", 2), '|2') || '|1' || COALESCE(CASE WHEN isNaN(toFloat64("weight")) THEN 'NaN' WHEN toFloat64("weight") = inf THEN 'Infinity' WHEN toFloat64("weight") = -inf THEN '-Infinity' WHEN toFloat64("weight") = 0 THEN '0' ELSE (CASE WHEN toFloat64("weight") < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN ABS(toFloat64("weight")) * exp2(1000) ELSE ABS(toFloat64("weight")) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64("weight")) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END, '|2') || '|1' || COALESCE(CASE WHEN reinterpretAsInt64("shipped") >= -2208988800000000 AND reinterpretAsInt64("shipped") < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString("shipped", 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64("shipped"), 1000000)) - toInt64(reinterpretAsInt64("shipped") % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString("shipped", 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64("shipped")) || ' units of 1/1000000 s since 1970') END, '|2') || '|1' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))))) AS a_h
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_hashed_rows
) a_row_words
GROUP BY a_row_words.a_partition_id
ORDER BY a_row_words.a_partition_id
