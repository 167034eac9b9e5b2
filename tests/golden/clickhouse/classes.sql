SELECT
  a_classed_rows.a_c AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT CASE WHEN lengthUTF8("name") > 200 THEN (substringUTF8("name", 1, 200) || '... sha256 ' || substringUTF8(lower(hex(SHA256("name"))), 1, 16)) ELSE "name" END AS a_c
  FROM "shop"."orders"
  WHERE 1 = 1
) a_classed_rows
WHERE 1 = 1
GROUP BY a_classed_rows.a_c
ORDER BY 2 DESC, a_classed_rows.a_c
LIMIT 200
