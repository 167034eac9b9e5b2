SELECT
  CASE WHEN (b.least + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (b.least + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((b.least + 0e0)) < 1e-270 THEN ABS((b.least + 0e0)) * POWER(2e0, 1000) ELSE ABS((b.least + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((b.least + 0e0)) < 1e-270 THEN ABS((b.least + 0e0)) * POWER(2e0, 1000) ELSE ABS((b.least + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((b.least + 0e0)) < 1e-270 THEN ABS((b.least + 0e0)) * POWER(2e0, 1000) ELSE ABS((b.least + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((b.least + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS least_text,
  CASE WHEN (b.greatest + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (b.greatest + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((b.greatest + 0e0)) < 1e-270 THEN ABS((b.greatest + 0e0)) * POWER(2e0, 1000) ELSE ABS((b.greatest + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((b.greatest + 0e0)) < 1e-270 THEN ABS((b.greatest + 0e0)) * POWER(2e0, 1000) ELSE ABS((b.greatest + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((b.greatest + 0e0)) < 1e-270 THEN ABS((b.greatest + 0e0)) * POWER(2e0, 1000) ELSE ABS((b.greatest + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((b.greatest + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT (`weight` + 0e0) AS v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) valued_rows
  WHERE v >= -1.7976931348623157e308 AND v <= 1.7976931348623157e308
) b
