SELECT
  LEFT(a_classed_rows.a_c, CHAR_LENGTH(a_classed_rows.a_c) - 1) AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT COLLATE((CASE WHEN CHAR_LENGTH("name") > 200 THEN (LEFT("name", 200) || '... sha256 ' || LEFT(SHA2("name", 256), 16)) ELSE "name" END || '.'), 'case_sensitive') AS a_c
  FROM "shop"."orders"
  WHERE 1 = 1
) a_classed_rows
WHERE 1 = 1
GROUP BY a_classed_rows.a_c
ORDER BY 2 DESC, a_classed_rows.a_c
LIMIT 200
