SELECT
  a_summed_rows.a_partition_id AS partition_id,
  a_summed_rows.a_row_count AS row_count,
  CAST(a_summed_rows.a_total DIV 1000000000000000000000000000000 AS SIGNED) AS hashed,
  a_summed_rows.a_key_min AS key_min,
  a_summed_rows.a_key_max AS key_max,
  CAST(a_summed_rows.a_total % 1000000000000000000000000000000 DIV 1073741824 AS SIGNED) AS word_0,
  CAST(a_summed_rows.a_total % 1073741824 AS SIGNED) AS word_1
FROM (
  SELECT
    a_hashed_rows.a_partition_id AS a_partition_id,
    COUNT(*) AS a_row_count,
    MIN(a_hashed_rows.a_k) AS a_key_min,
    MAX(a_hashed_rows.a_k) AS a_key_max,
    COALESCE(SUM(a_hashed_rows.a_v + 1000000000000000000000000000000), 0) AS a_total
  FROM (
    SELECT
      (((`id` % 1168518413 + 1168518413) * 346030291) % 2147483647) % 64 AS a_partition_id,
      `id` AS a_k,
      CAST(CONV(LEFT(SHA2(CONCAT(CAST('' AS BINARY), COALESCE(`id`, ''), X'ff', CASE WHEN `name` IS NULL THEN CAST(X'fe' AS BINARY) ELSE `name` END, X'ff', COALESCE(`price`, ''), '|', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, ''), '|', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), ''), '|', COALESCE(`paid`, '')), 256), 15), 16, 10) AS SIGNED) AS a_v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) a_hashed_rows
  GROUP BY a_hashed_rows.a_partition_id
) a_summed_rows
ORDER BY a_summed_rows.a_partition_id
