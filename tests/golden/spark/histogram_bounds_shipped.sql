SELECT
  CASE WHEN YEAR(a_b.a_least) < 1 THEN CONCAT(LPAD(CAST(1 - YEAR(a_b.a_least) AS STRING), 4, '0'), TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM DATE_FORMAT(a_b.a_least, '-MM-dd HH:mm:ss.SSSSSS'))), ' BC') ELSE TRIM(LEADING '+' FROM CAST(a_b.a_least AS STRING)) END AS least_text,
  CASE WHEN YEAR(a_b.a_greatest) < 1 THEN CONCAT(LPAD(CAST(1 - YEAR(a_b.a_greatest) AS STRING), 4, '0'), TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM DATE_FORMAT(a_b.a_greatest, '-MM-dd HH:mm:ss.SSSSSS'))), ' BC') ELSE TRIM(LEADING '+' FROM CAST(a_b.a_greatest AS STRING)) END AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT `shipped` AS a_v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v >= CAST('0001-01-01 00:00:00.000000' AS TIMESTAMP_NTZ) AND a_valued_rows.a_v <= CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP_NTZ)
) a_b
