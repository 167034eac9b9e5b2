SELECT
  a_row_words.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_row_words.a_w3) AS hashed,
  MIN(a_row_words.a_k) AS key_min,
  MAX(a_row_words.a_k) AS key_max,
  CAST(SUM(a_row_words.a_w0) AS BIGINT) AS word_0,
  CAST(SUM(a_row_words.a_w1) AS BIGINT) AS word_1,
  CAST(SUM(a_row_words.a_w2) AS BIGINT) AS word_2,
  CAST(SUM(a_row_words.a_w3) AS BIGINT) AS word_3,
  MIN((((a_row_words.a_w3 * 1285533145 + 1655539436) % 2305843009213693951) & 2147483647)) AS minhash_0,
  MIN((((a_row_words.a_w3 * 1350832907 + 492214603) % 2305843009213693951) & 2147483647)) AS minhash_1,
  MIN((((a_row_words.a_w3 * 1235092432 + 1629043653) % 2305843009213693951) & 2147483647)) AS minhash_2,
  MIN((((a_row_words.a_w3 * 176256801 + 205743474) % 2305843009213693951) & 2147483647)) AS minhash_3
FROM (
  SELECT
    (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS a_partition_id,
    a_hashed_rows.a_k AS a_k,
    auditor_word(a_hashed_rows.a_h, 1, 8) AS a_w0,
    auditor_word(a_hashed_rows.a_h, 9, 8) AS a_w1,
    auditor_word(a_hashed_rows.a_h, 17, 8) AS a_w2,
    auditor_word(a_hashed_rows.a_h, 25, 8) AS a_w3
  FROM (
    SELECT
      (((CAST("id" % 1168518413 AS BIGINT) + 1168518413) * 346030291) % 2147483647) AS a_kv,
      "id" AS a_k,
      auditor_sha256((COALESCE(CAST("id" AS TEXT), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(auditor_decimal("price", 2, 2), '|2') || '|1' || COALESCE(CASE WHEN auditor_double("weight") = 9e999 THEN 'Infinity' WHEN auditor_double("weight") = -9e999 THEN '-Infinity' WHEN auditor_double("weight") = 0 THEN '0' ELSE (CASE WHEN auditor_double("weight") < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END, '|2') || '|1' || COALESCE(auditor_moment("shipped", 6), '|2') || '|1' || COALESCE(CASE WHEN TYPEOF("paid") = 'text' THEN "paid" WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))) AS a_h
    FROM "shop"."orders"
    WHERE 1 = 1
    LIMIT -1
  ) a_hashed_rows
  LIMIT -1
) a_row_words
GROUP BY a_row_words.a_partition_id
ORDER BY a_row_words.a_partition_id
