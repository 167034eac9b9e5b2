CREATE TABLE IF NOT EXISTS `shop`.`auditor_patch_marks` (
  patch CHAR(32) CHARACTER SET utf8mb4 NOT NULL,
  batch BIGINT NOT NULL,
  PRIMARY KEY (patch, batch)
);
INSERT INTO `shop`.`auditor_patch_marks` (patch, batch)
VALUES ('0123456789abcdef0123456789abcdef', 1);
INSERT INTO `shop`.`orders` (`id`, `name`, `price`, `weight`, `shipped`, `paid`) VALUES (7, 'sent', NULL, 0.0e0, '2026-11-22 10:30:00', 1);
UPDATE `shop`.`orders`
SET `name` = 'sent', `price` = NULL
WHERE `id` = 7 AND SHA2(CONCAT(COALESCE(`id`, '|2'), '|1', CASE WHEN `name` IS NULL THEN '|2' ELSE REPLACE((`name` COLLATE utf8mb4_bin), '|', '|0') END, '|1', COALESCE(`price`, '|2'), '|1', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|2'), '|1', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), '|2'), '|1', COALESCE(`paid`, '|2')), 256) = 'abababababababababababababababababababababababababababababababab';
DELETE FROM `shop`.`orders`
WHERE `id` = 7 AND SHA2(CONCAT(COALESCE(`id`, '|2'), '|1', CASE WHEN `name` IS NULL THEN '|2' ELSE REPLACE((`name` COLLATE utf8mb4_bin), '|', '|0') END, '|1', COALESCE(`price`, '|2'), '|1', COALESCE(CASE WHEN (`weight` + 0e0) = 0 THEN '0' ELSE CONCAT(CASE WHEN (`weight` + 0e0) < 0 THEN '-' ELSE '' END, CAST(CAST((CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) * POWER(2e0, 53 - FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0)) AS SIGNED) AS CHAR), 'p', CAST(CAST(FLOOR(LOG2(CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN ABS((`weight` + 0e0)) * POWER(2e0, 1000) ELSE ABS((`weight` + 0e0)) END) + 0.3721e0) - CASE WHEN ABS((`weight` + 0e0)) < 1e-270 THEN 1000 ELSE 0 END AS SIGNED) AS CHAR)) END, '|2'), '|1', COALESCE(TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(`shipped` AS BINARY))), '|2'), '|1', COALESCE(`paid`, '|2')), 256) = 'abababababababababababababababababababababababababababababababab';
SELECT COUNT(*)
FROM `shop`.`auditor_patch_marks`
WHERE patch = '0123456789abcdef0123456789abcdef' AND batch = 1;
DELETE FROM `shop`.`auditor_patch_marks`
WHERE patch = '0123456789abcdef0123456789abcdef'
