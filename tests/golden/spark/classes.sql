SELECT
  c AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT (CASE WHEN CHAR_LENGTH(`name`) > 200 THEN CONCAT(LEFT(`name`, 200), '... sha256 ', LEFT(SHA2(`name`, 256), 16)) ELSE `name` END COLLATE UTF8_BINARY) AS c
  FROM `shop`.`orders`
  WHERE 1 = 1
) classed_rows
WHERE 1 = 1
GROUP BY c
ORDER BY class_rows DESC, c
LIMIT 200
