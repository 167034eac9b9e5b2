SELECT
  a_hashed_rows.a_partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(a_hashed_rows.a_v) AS hashed,
  MIN(a_hashed_rows.a_k) AS key_min,
  MAX(a_hashed_rows.a_k) AS key_max,
  CAST(SUM((a_hashed_rows.a_v >> 30)) AS BIGINT) AS word_0,
  CAST(SUM((a_hashed_rows.a_v & 1073741823)) AS BIGINT) AS word_1
FROM (
  SELECT
    ("id" / 1024 - CASE WHEN "id" % 1024 < 0 THEN 1 ELSE 0 END) AS a_partition_id,
    "id" AS a_k,
    auditor_word(auditor_sha256((COALESCE(CAST("id" AS TEXT), '|2') || '|1' || COALESCE(REPLACE("name", '|', '|0'), '|2') || '|1' || COALESCE(auditor_decimal("price", 2, 2), '|2') || '|1' || COALESCE(CASE WHEN auditor_double("weight") = 9e999 THEN 'Infinity' WHEN auditor_double("weight") = -9e999 THEN '-Infinity' WHEN auditor_double("weight") = 0 THEN '0' ELSE (CASE WHEN auditor_double("weight") < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN ABS(auditor_double("weight")) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double("weight")) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double("weight")) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END, '|2') || '|1' || COALESCE(auditor_moment("shipped", 6), '|2') || '|1' || COALESCE(CASE WHEN TYPEOF("paid") = 'text' THEN "paid" WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '|2'))), 1, 15) AS a_v
  FROM "shop"."orders"
  WHERE "id" >= 1024 AND "id" < 4096
  LIMIT -1
) a_hashed_rows
GROUP BY a_hashed_rows.a_partition_id
ORDER BY a_hashed_rows.a_partition_id
