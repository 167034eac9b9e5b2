SELECT
  a_classed_rows.a_c AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT (CASE WHEN CHAR_LENGTH((CAST("name" AS VARCHAR) COLLATE C)) > 200 THEN (LEFT((CAST("name" AS VARCHAR) COLLATE C), 200) || '... sha256 ' || LEFT(SHA256((CAST("name" AS VARCHAR) COLLATE C)), 16)) ELSE (CAST("name" AS VARCHAR) COLLATE C) END COLLATE C) AS a_c
  FROM "shop"."orders"
  WHERE 1 = 1
) a_classed_rows
WHERE 1 = 1
GROUP BY a_classed_rows.a_c
ORDER BY 2 DESC, a_classed_rows.a_c
LIMIT 200
