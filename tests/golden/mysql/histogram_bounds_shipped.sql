SELECT
  TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(b.least AS CHAR))) AS least_text,
  TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(b.greatest AS CHAR))) AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT `shipped` AS v
    FROM `shop`.`orders`
    WHERE 1 = 1
  ) valued_rows
  WHERE v >= '0001-01-01 00:00:00.000000' AND v <= '9999-12-31 23:59:59.999999'
) b
