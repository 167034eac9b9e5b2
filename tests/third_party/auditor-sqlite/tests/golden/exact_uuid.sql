SELECT
  (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64) AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  CAST(NULL AS BIGINT) AS key_min,
  CAST(NULL AS BIGINT) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30)) AS BIGINT) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823)) AS BIGINT) AS word_1,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * ((a_hashed_rows.a_kv & 32767) + 1)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_1,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_2,
  CAST(SUM(((((a_hashed_rows.a_v >> 30) * ((a_hashed_rows.a_kv & 32767) + 1)) % 2147483647) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_3,
  CAST(SUM(((a_hashed_rows.a_v >> 30) * (((((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1)) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_4,
  CAST(SUM(((((a_hashed_rows.a_v >> 30) * ((a_hashed_rows.a_kv & 32767) + 1)) % 2147483647) * (((((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1)) * (((a_hashed_rows.a_kv & 32767) + 1) * ((a_hashed_rows.a_kv & 32767) + 1))) % 2147483647)) % 2147483647) AS BIGINT) % 2147483647 AS syndrome_5
FROM (
  SELECT
    (((COALESCE(CASE LENGTH("id") WHEN 36 THEN CASE WHEN LENGTH(RTRIM(LOWER((SUBSTRING("id", 4, 5) || SUBSTRING("id", 13, 1) || SUBSTRING("id", 15, 4) || SUBSTRING("id", 32, 5))), '0123456789abcdef')) = 0 THEN auditor_word((SUBSTRING("id", 4, 5) || SUBSTRING("id", 13, 1) || SUBSTRING("id", 15, 4) || SUBSTRING("id", 32, 5)), 1, 15) END WHEN 32 THEN CASE WHEN LENGTH(RTRIM(LOWER((SUBSTRING("id", 4, 5) || SUBSTRING("id", 12, 5) || SUBSTRING("id", 28, 5))), '0123456789abcdef')) = 0 THEN auditor_word((SUBSTRING("id", 4, 5) || SUBSTRING("id", 12, 5) || SUBSTRING("id", 28, 5)), 1, 15) END END, auditor_word(auditor_sha256(LOWER(CASE WHEN LENGTH("id") = 32 THEN (SUBSTRING("id", 1, 8) || '-' || SUBSTRING("id", 9, 4) || '-' || SUBSTRING("id", 13, 4) || '-' || SUBSTRING("id", 17, 4) || '-' || SUBSTRING("id", 21, 1073741824)) ELSE "id" END)), 1, 15)) % 1168518413 + 1168518413) * 346030291) % 2147483647) AS a_kv,
    auditor_word(auditor_sha256((REPLACE(LOWER(CASE WHEN LENGTH("id") = 32 THEN (SUBSTRING("id", 1, 8) || '-' || SUBSTRING("id", 9, 4) || '-' || SUBSTRING("id", 13, 4) || '-' || SUBSTRING("id", 17, 4) || '-' || SUBSTRING("id", 21, 1073741824)) ELSE "id" END), '|', '|0') || '|1' || REPLACE("name", '|', '|0') || '|1' || auditor_decimal("price", 2, 2) || '|1' || CASE WHEN auditor_double("weight") = 9e999 THEN 'Infinity' WHEN auditor_double("weight") = -9e999 THEN '-Infinity' WHEN auditor_double("weight") = 0 THEN '0' ELSE (CASE WHEN auditor_double("weight") < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END || '|1' || auditor_moment("shipped", 6) || '|1' || CASE WHEN TYPEOF("paid") = 'text' THEN "paid" WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END)), 1, 15) AS a_v
  FROM "shop"."orders"
  WHERE 1 = 1
  LIMIT -1
) a_hashed_rows
GROUP BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
ORDER BY (a_hashed_rows.a_kv * a_hashed_rows.a_kv % 2147483647 % 64)
