SELECT
  0 AS partition_id,
  COUNT(*) AS row_count,
  0 AS hashed,
  CAST(NULL AS SIGNED) AS key_min,
  CAST(NULL AS SIGNED) AS key_max,
  0 AS word_0,
  0 AS word_1,
  0 AS word_2,
  0 AS word_3
FROM `shop`.`orders`
WHERE 1 = 1 AND ((`id` < 1 OR `id` >= 100))
HAVING COUNT(*) > 0
UNION ALL
SELECT
  partition_id,
  row_count,
  hashed,
  key_min,
  key_max,
  CAST(CONV(LEFT(digest, 15), 16, 10) AS SIGNED) AS word_0,
  CAST(CONV(SUBSTR(digest, 16, 15), 16, 10) AS SIGNED) AS word_1,
  CAST(CONV(SUBSTR(digest, 31, 15), 16, 10) AS SIGNED) AS word_2,
  CAST(CONV(SUBSTR(digest, 46, 15), 16, 10) AS SIGNED) AS word_3
FROM (
  SELECT
    1 AS partition_id,
    COUNT(*) AS row_count,
    CASE WHEN COUNT(*) <= 20000 THEN COUNT(*) ELSE 0 END AS hashed,
    CAST(NULL AS SIGNED) AS key_min,
    CAST(NULL AS SIGNED) AS key_max,
    SHA2(GROUP_CONCAT(v SEPARATOR X'fd'), 256) AS digest
  FROM (
    SELECT
      COALESCE(CASE WHEN OCTET_LENGTH(`name`) > 16383 THEN NULL ELSE CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')) END, X'fc736f75726365') AS v
    FROM `shop`.`orders` FORCE INDEX (PRIMARY)
    WHERE 1 = 1 AND (`id` >= 1 AND `id` < 34)
  ) ordered_rows
  HAVING COUNT(*) > 0
) digested_rows
UNION ALL
SELECT
  partition_id,
  row_count,
  hashed,
  key_min,
  key_max,
  CAST(CONV(LEFT(digest, 15), 16, 10) AS SIGNED) AS word_0,
  CAST(CONV(SUBSTR(digest, 16, 15), 16, 10) AS SIGNED) AS word_1,
  CAST(CONV(SUBSTR(digest, 31, 15), 16, 10) AS SIGNED) AS word_2,
  CAST(CONV(SUBSTR(digest, 46, 15), 16, 10) AS SIGNED) AS word_3
FROM (
  SELECT
    2 AS partition_id,
    COUNT(*) AS row_count,
    CASE WHEN COUNT(*) <= 20000 THEN COUNT(*) ELSE 0 END AS hashed,
    CAST(NULL AS SIGNED) AS key_min,
    CAST(NULL AS SIGNED) AS key_max,
    SHA2(GROUP_CONCAT(v SEPARATOR X'fd'), 256) AS digest
  FROM (
    SELECT
      COALESCE(CASE WHEN OCTET_LENGTH(`name`) > 16383 THEN NULL ELSE CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')) END, X'fc736f75726365') AS v
    FROM `shop`.`orders` FORCE INDEX (PRIMARY)
    WHERE 1 = 1 AND (`id` >= 34 AND `id` < 67)
  ) ordered_rows
  HAVING COUNT(*) > 0
) digested_rows
UNION ALL
SELECT
  partition_id,
  row_count,
  hashed,
  key_min,
  key_max,
  CAST(CONV(LEFT(digest, 15), 16, 10) AS SIGNED) AS word_0,
  CAST(CONV(SUBSTR(digest, 16, 15), 16, 10) AS SIGNED) AS word_1,
  CAST(CONV(SUBSTR(digest, 31, 15), 16, 10) AS SIGNED) AS word_2,
  CAST(CONV(SUBSTR(digest, 46, 15), 16, 10) AS SIGNED) AS word_3
FROM (
  SELECT
    3 AS partition_id,
    COUNT(*) AS row_count,
    CASE WHEN COUNT(*) <= 20000 THEN COUNT(*) ELSE 0 END AS hashed,
    CAST(NULL AS SIGNED) AS key_min,
    CAST(NULL AS SIGNED) AS key_max,
    SHA2(GROUP_CONCAT(v SEPARATOR X'fd'), 256) AS digest
  FROM (
    SELECT
      COALESCE(CASE WHEN OCTET_LENGTH(`name`) > 16383 THEN NULL ELSE CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')) END, X'fc736f75726365') AS v
    FROM `shop`.`orders` FORCE INDEX (PRIMARY)
    WHERE 1 = 1 AND (`id` >= 67 AND `id` < 100)
  ) ordered_rows
  HAVING COUNT(*) > 0
) digested_rows
