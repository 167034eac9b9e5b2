SELECT
  a_classed_rows.a_c AS class_text,
  COUNT(*) AS class_rows,
  COUNT(*) OVER () AS class_count
FROM (
  SELECT CAST(CASE WHEN CHAR_LENGTH((`name` COLLATE utf8mb4_bin)) > 200 THEN CONCAT(LEFT((`name` COLLATE utf8mb4_bin), 200), '... sha256 ', LEFT(SHA2((`name` COLLATE utf8mb4_bin), 256), 16)) ELSE (`name` COLLATE utf8mb4_bin) END AS BINARY) AS a_c
  FROM `shop`.`orders`
  WHERE 1 = 1
) a_classed_rows
WHERE a_classed_rows.a_c IN ('draft', 'sent ') OR a_classed_rows.a_c IS NULL
GROUP BY a_classed_rows.a_c
ORDER BY 2 DESC, a_classed_rows.a_c
LIMIT 3
