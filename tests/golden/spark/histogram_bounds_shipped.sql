SELECT
  CASE WHEN YEAR(b.least) < 1 THEN CONCAT(LPAD(CAST(1 - YEAR(b.least) AS STRING), 4, '0'), TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM DATE_FORMAT(b.least, '-MM-dd HH:mm:ss.SSSSSS'))), ' BC') ELSE TRIM(LEADING '+' FROM CAST(b.least AS STRING)) END AS least_text,
  CASE WHEN YEAR(b.greatest) < 1 THEN CONCAT(LPAD(CAST(1 - YEAR(b.greatest) AS STRING), 4, '0'), TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM DATE_FORMAT(b.greatest, '-MM-dd HH:mm:ss.SSSSSS'))), ' BC') ELSE TRIM(LEADING '+' FROM CAST(b.greatest AS STRING)) END AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT `shipped` AS v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) valued_rows
  WHERE v >= CAST('0001-01-01 00:00:00.000000' AS TIMESTAMP_NTZ) AND v <= CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP_NTZ)
) b
