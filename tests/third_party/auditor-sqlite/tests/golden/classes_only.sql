SELECT
  c AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT (CASE WHEN LENGTH("name") > 200 THEN (SUBSTR("name", 1, 200) || '... sha256 ' || SUBSTR(auditor_sha256("name"), 1, 16)) ELSE "name" END COLLATE BINARY) AS c
  FROM "shop"."orders"
  WHERE 1 = 1
) classed_rows
WHERE c IN ('draft', 'sent ') OR c IS NULL
GROUP BY c
ORDER BY class_rows DESC, c
LIMIT 3
