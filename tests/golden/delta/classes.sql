SELECT
  c AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT (CASE WHEN CHAR_LENGTH(CAST("name" AS VARCHAR)) > 200 THEN (LEFT(CAST("name" AS VARCHAR), 200) || '... sha256 ' || LEFT(SHA256(CAST("name" AS VARCHAR)), 16)) ELSE CAST("name" AS VARCHAR) END COLLATE C) AS c
  FROM "shop"."orders"
  WHERE 1 = 1
) classed_rows
WHERE 1 = 1
GROUP BY c
ORDER BY class_rows DESC, c
LIMIT 200
