SELECT
  0 AS a_partition_id,
  COUNT(*) AS a_row_count,
  0 AS a_hashed,
  CAST(NULL AS SIGNED) AS a_key_min,
  CAST(NULL AS SIGNED) AS a_key_max,
  0 AS a_word_0,
  0 AS a_word_1,
  0 AS a_word_2,
  0 AS a_word_3
FROM `shop`.`orders`
WHERE 1 = 1 AND ((`id` < 1 OR `id` >= 100))
HAVING COUNT(*) > 0
UNION ALL
SELECT
  a_digested_rows.a_partition_id AS partition_id,
  a_digested_rows.a_row_count AS row_count,
  a_digested_rows.a_hashed AS hashed,
  a_digested_rows.a_key_min AS key_min,
  a_digested_rows.a_key_max AS key_max,
  CAST(CONV(LEFT(a_digested_rows.a_digest, 15), 16, 10) AS SIGNED) AS word_0,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 16, 15), 16, 10) AS SIGNED) AS word_1,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 31, 15), 16, 10) AS SIGNED) AS word_2,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 46, 15), 16, 10) AS SIGNED) AS word_3
FROM (
  SELECT
    1 AS a_partition_id,
    COUNT(*) AS a_row_count,
    CASE WHEN COUNT(*) <= 20000 THEN COUNT(*) ELSE 0 END AS a_hashed,
    CAST(NULL AS SIGNED) AS a_key_min,
    CAST(NULL AS SIGNED) AS a_key_max,
    SHA2(GROUP_CONCAT(a_ordered_rows.a_v SEPARATOR X'fd'), 256) AS a_digest
  FROM (
    SELECT
      COALESCE(CASE WHEN OCTET_LENGTH(`name`) > 16383 THEN NULL ELSE CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')) END, X'fc736f75726365') AS a_v
    FROM `shop`.`orders` FORCE INDEX (PRIMARY)
    WHERE 1 = 1 AND (`id` >= 1 AND `id` < 34)
  ) a_ordered_rows
  HAVING COUNT(*) > 0
) a_digested_rows
UNION ALL
SELECT
  a_digested_rows.a_partition_id AS partition_id,
  a_digested_rows.a_row_count AS row_count,
  a_digested_rows.a_hashed AS hashed,
  a_digested_rows.a_key_min AS key_min,
  a_digested_rows.a_key_max AS key_max,
  CAST(CONV(LEFT(a_digested_rows.a_digest, 15), 16, 10) AS SIGNED) AS word_0,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 16, 15), 16, 10) AS SIGNED) AS word_1,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 31, 15), 16, 10) AS SIGNED) AS word_2,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 46, 15), 16, 10) AS SIGNED) AS word_3
FROM (
  SELECT
    2 AS a_partition_id,
    COUNT(*) AS a_row_count,
    CASE WHEN COUNT(*) <= 20000 THEN COUNT(*) ELSE 0 END AS a_hashed,
    CAST(NULL AS SIGNED) AS a_key_min,
    CAST(NULL AS SIGNED) AS a_key_max,
    SHA2(GROUP_CONCAT(a_ordered_rows.a_v SEPARATOR X'fd'), 256) AS a_digest
  FROM (
    SELECT
      COALESCE(CASE WHEN OCTET_LENGTH(`name`) > 16383 THEN NULL ELSE CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')) END, X'fc736f75726365') AS a_v
    FROM `shop`.`orders` FORCE INDEX (PRIMARY)
    WHERE 1 = 1 AND (`id` >= 34 AND `id` < 67)
  ) a_ordered_rows
  HAVING COUNT(*) > 0
) a_digested_rows
UNION ALL
SELECT
  a_digested_rows.a_partition_id AS partition_id,
  a_digested_rows.a_row_count AS row_count,
  a_digested_rows.a_hashed AS hashed,
  a_digested_rows.a_key_min AS key_min,
  a_digested_rows.a_key_max AS key_max,
  CAST(CONV(LEFT(a_digested_rows.a_digest, 15), 16, 10) AS SIGNED) AS word_0,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 16, 15), 16, 10) AS SIGNED) AS word_1,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 31, 15), 16, 10) AS SIGNED) AS word_2,
  CAST(CONV(SUBSTR(a_digested_rows.a_digest, 46, 15), 16, 10) AS SIGNED) AS word_3
FROM (
  SELECT
    3 AS a_partition_id,
    COUNT(*) AS a_row_count,
    CASE WHEN COUNT(*) <= 20000 THEN COUNT(*) ELSE 0 END AS a_hashed,
    CAST(NULL AS SIGNED) AS a_key_min,
    CAST(NULL AS SIGNED) AS a_key_max,
    SHA2(GROUP_CONCAT(a_ordered_rows.a_v SEPARATOR X'fd'), 256) AS a_digest
  FROM (
    SELECT
      COALESCE(CASE WHEN OCTET_LENGTH(`name`) > 16383 THEN NULL ELSE CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')) END, X'fc736f75726365') AS a_v
    FROM `shop`.`orders` FORCE INDEX (PRIMARY)
    WHERE 1 = 1 AND (`id` >= 67 AND `id` < 100)
  ) a_ordered_rows
  HAVING COUNT(*) > 0
) a_digested_rows
