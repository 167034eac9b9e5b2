CREATE TABLE `shop`.`auditor_new` LIKE `shop`.`orders`;
SELECT CONCAT('(', CASE WHEN `id` IS NULL THEN 'NULL' ELSE CONCAT('''', CAST(`id` AS CHAR), '''') END, ',', CASE WHEN `price` IS NULL THEN 'NULL' ELSE CONCAT('''', CAST(`price` AS CHAR), '''') END, ',', CASE WHEN `weight` IS NULL THEN 'NULL' ELSE CONCAT('''', CAST(`weight` AS CHAR), '''') END, ',', CASE WHEN `shipped` IS NULL THEN 'NULL' ELSE CONCAT('''', TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM `shipped`)), '''') END, ',', CASE WHEN `paid` IS NULL THEN 'NULL' ELSE CONCAT('''', CAST(`paid` AS CHAR), '''') END, ')')
FROM `shop`.`orders`
WHERE `id` >= 1024 AND `id` < 4096;
RENAME TABLE `shop`.`orders` TO `shop`.`orders_old`, `shop`.`auditor_new` TO `shop`.`orders`;
INSERT INTO `shop`.`orders_old` (`id`, `name`, `price`, `weight`, `shipped`, `paid`)
SELECT `id`, `name`, `price`, `weight`, `shipped`, `paid`
FROM `shop`.`orders`
WHERE 1 = 1;
DELETE FROM `shop`.`orders`
WHERE `id` >= 1024 AND `id` < 4096;
DROP TABLE IF EXISTS `shop`.`auditor_new`
