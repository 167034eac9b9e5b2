SELECT
  partition_id,
  COUNT(*) AS row_count,
  COUNT(w3) AS hashed,
  MIN(k) AS key_min,
  MAX(k) AS key_max,
  CAST(SUM(w0) AS BIGINT) AS word_0,
  CAST(SUM(w1) AS BIGINT) AS word_1,
  CAST(SUM(w2) AS BIGINT) AS word_2,
  CAST(SUM(w3) AS BIGINT) AS word_3,
  MIN((((w3 * 1285533145 + 1655539436) % 2305843009213693951) & 2147483647)) AS minhash_0,
  MIN((((w3 * 1350832907 + 492214603) % 2305843009213693951) & 2147483647)) AS minhash_1,
  MIN((((w3 * 1235092432 + 1629043653) % 2305843009213693951) & 2147483647)) AS minhash_2,
  MIN((((w3 * 176256801 + 205743474) % 2305843009213693951) & 2147483647)) AS minhash_3
FROM (
  SELECT
    partition_id AS partition_id,
    k,
    auditor_word(h, 1, 8) AS w0,
    auditor_word(h, 9, 8) AS w1,
    auditor_word(h, 17, 8) AS w2,
    auditor_word(h, 25, 8) AS w3
  FROM (
    SELECT
      (CAST(STRFTIME('%s', SUBSTR("shipped", 1, 10)) AS INTEGER) / 86400) AS partition_id,
      "id" AS k,
      auditor_sha256((COALESCE(CAST("id" AS TEXT), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(auditor_decimal("price", 2, 2), '|2') || '|1' || COALESCE(CASE WHEN auditor_double("weight") = 9e999 THEN 'Infinity' WHEN auditor_double("weight") = -9e999 THEN '-Infinity' WHEN auditor_double("weight") = 0 THEN '0' ELSE (CASE WHEN auditor_double("weight") < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END, '|2') || '|1' || COALESCE(auditor_moment("shipped", 6), '|2') || '|1' || COALESCE(CASE WHEN TYPEOF("paid") = 'text' THEN "paid" WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))) AS h
    FROM "shop"."orders"
    WHERE 1 = 1
    LIMIT -1
  ) hashed_rows
  LIMIT -1
) row_words
GROUP BY partition_id
ORDER BY partition_id
