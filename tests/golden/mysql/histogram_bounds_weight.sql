SELECT
  CASE WHEN (a_b.a_least + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (a_b.a_least + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((a_b.a_least + 0e0)) < 1e-270 THEN ABS((a_b.a_least + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_b.a_least + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((a_b.a_least + 0e0)) < 1e-270 THEN ABS((a_b.a_least + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_b.a_least + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((a_b.a_least + 0e0)) < 1e-270 THEN ABS((a_b.a_least + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_b.a_least + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((a_b.a_least + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS least_text,
  CASE WHEN (a_b.a_greatest + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (a_b.a_greatest + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((a_b.a_greatest + 0e0)) < 1e-270 THEN ABS((a_b.a_greatest + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_b.a_greatest + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((a_b.a_greatest + 0e0)) < 1e-270 THEN ABS((a_b.a_greatest + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_b.a_greatest + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((a_b.a_greatest + 0e0)) < 1e-270 THEN ABS((a_b.a_greatest + 0e0)) * POWER(2e0, 1000) ELSE ABS((a_b.a_greatest + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((a_b.a_greatest + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT (`weight` + 0e0) AS a_v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v >= -1.7976931348623157e308 AND a_valued_rows.a_v <= 1.7976931348623157e308
) a_b
