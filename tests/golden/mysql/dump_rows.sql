SELECT CAST(`id` AS CHAR), `weight`, CAST(`price` AS CHAR), TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM `at`))
FROM `shop`.`orders`
WHERE `id` >= 7
