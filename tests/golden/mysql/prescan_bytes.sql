SELECT
  partition_id AS partition_id,
  row_count AS row_count,
  CAST(total DIV 1000000000000000000000000000000 AS SIGNED) AS hashed,
  key_min AS key_min,
  key_max AS key_max,
  CAST(total % 1000000000000000000000000000000 DIV 1073741824 AS SIGNED) AS word_0,
  CAST(total % 1073741824 AS SIGNED) AS word_1
FROM (
  SELECT
    partition_id AS partition_id,
    COUNT(*) AS row_count,
    MIN(k) AS key_min,
    MAX(k) AS key_max,
    COALESCE(SUM(v + 1000000000000000000000000000000), 0) AS total
  FROM (
    SELECT
      (((`id` % 1168518413 + 1168518413) * 346030291) % 2147483647) % 64 AS partition_id,
      `id` AS k,
      CAST(CONV(LEFT(SHA2(CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')), 256), 15), 16, 10) AS SIGNED) AS v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) hashed_rows
  GROUP BY partition_id
) summed_rows
ORDER BY partition_id
