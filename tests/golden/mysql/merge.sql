CREATE TABLE IF NOT EXISTS `dwh`.`auditor_positions` (
  pipeline VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  table_name VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  position BIGINT NOT NULL,
  schema_id LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
  merged_at DATETIME(6) NOT NULL,
  PRIMARY KEY (pipeline, table_name)
);
SELECT table_name, position, schema_id
FROM `dwh`.`auditor_positions`
WHERE pipeline = 'shop';
SELECT pipeline, table_name
FROM `dwh`.`auditor_positions`
WHERE pipeline <> 'shop';
CREATE TABLE `dwh`.`orders` (
  `id` BIGINT,
  `name` VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  `price` DECIMAL(10,2) NULL,
  PRIMARY KEY (`id`, `name`)
) ENGINE = InnoDB;
DROP TEMPORARY TABLE IF EXISTS `dwh`.`auditor_stage_db7faf71f44ee479`;
CREATE TEMPORARY TABLE `dwh`.`auditor_stage_db7faf71f44ee479` (
  auditor_attempt LONGTEXT CHARACTER SET utf8mb4,
  auditor_position BIGINT,
  auditor_row BIGINT,
  auditor_op LONGTEXT CHARACTER SET utf8mb4
) ENGINE = InnoDB AS
SELECT
  NULL AS auditor_attempt,
  NULL AS auditor_position,
  NULL AS auditor_row,
  NULL AS auditor_op,
  `id`,
  `name`,
  `price`
FROM (SELECT 1 AS auditor_one) AS nothing
LEFT JOIN `dwh`.`orders` ON 1 = 0
WHERE 1 = 0;
SELECT position FROM `dwh`.`auditor_positions` WHERE pipeline = 'shop' FOR UPDATE;
SELECT
  COUNT(*),
  COALESCE(SUM(CASE WHEN auditor_op = 'l' THEN 1 ELSE 0 END), 0)
FROM `dwh`.`auditor_stage_db7faf71f44ee479`
WHERE auditor_attempt = 'a1';
DELETE FROM `dwh`.`auditor_positions`
WHERE pipeline = 'shop' AND table_name IN ('shop.orders', 'shop.items');
INSERT INTO `dwh`.`auditor_positions` (pipeline, table_name, position, schema_id, merged_at)
VALUES
  ('shop', 'shop.orders', 4096, '0123456789ab', UTC_TIMESTAMP(6)),
  ('shop', 'shop.items', 4097, 'ba9876543210', UTC_TIMESTAMP(6));
SELECT
  auditor_position,
  auditor_row,
  auditor_op,
  CAST(`id` AS CHAR),
  CONVERT(`name` USING utf8mb4)
FROM `dwh`.`auditor_stage_db7faf71f44ee479`
WHERE auditor_attempt = 'a1' AND auditor_op IN ('l', 'h');
CREATE TEMPORARY TABLE `dwh`.`auditor_last` ENGINE = InnoDB AS
SELECT *
FROM (
  SELECT
    auditor_position,
    auditor_row,
    auditor_op,
    `id`, `name`, `price`,
    ROW_NUMBER() OVER (PARTITION BY `id`, CAST(`name` AS BINARY) ORDER BY auditor_position DESC, auditor_row DESC) AS auditor_rank
  FROM `dwh`.`auditor_stage_db7faf71f44ee479`
  WHERE auditor_attempt = 'a1' AND auditor_op IN ('i', 'd')
) AS ranked
WHERE auditor_rank = 1;
UPDATE `dwh`.`auditor_last` AS changed
SET auditor_op = 'd'
WHERE changed.auditor_op = 'i' AND (changed.auditor_position < 4096 OR (changed.auditor_position = 4096 AND changed.auditor_row < 2)) AND changed.`id` > 7;
DELETE merged
FROM `dwh`.`orders` AS merged
WHERE merged.`id` > 7
  AND NOT EXISTS (SELECT 1 FROM `dwh`.`auditor_last` AS changed WHERE changed.auditor_op = 'i' AND merged.`id` = changed.`id` AND merged.`name` = changed.`name` AND CAST(merged.`name` AS BINARY) = CAST(changed.`name` AS BINARY));
DELETE merged
FROM `dwh`.`auditor_last` AS changed
STRAIGHT_JOIN `dwh`.`orders` AS merged ON merged.`id` = changed.`id` AND merged.`name` = changed.`name` AND CAST(merged.`name` AS BINARY) = CAST(changed.`name` AS BINARY) AND (changed.auditor_op = 'd' OR NOT (merged.`price` <=> changed.`price`));
UPDATE `dwh`.`auditor_last` AS changed
STRAIGHT_JOIN `dwh`.`orders` AS merged ON merged.`id` = changed.`id` AND merged.`name` = changed.`name` AND CAST(merged.`name` AS BINARY) = CAST(changed.`name` AS BINARY)
SET merged.`id` = changed.`id`, merged.`name` = changed.`name`, merged.`price` = changed.`price`
WHERE changed.auditor_op = 'i' AND TRUE;
INSERT INTO `dwh`.`orders` (`id`, `name`, `price`)
SELECT `id`, `name`, `price`
FROM `dwh`.`auditor_last` AS changed
WHERE
  changed.auditor_op = 'i'
  AND NOT EXISTS (SELECT 1 FROM `dwh`.`orders` AS merged WHERE merged.`id` = changed.`id` AND merged.`name` = changed.`name` AND CAST(merged.`name` AS BINARY) = CAST(changed.`name` AS BINARY));
DROP TEMPORARY TABLE `dwh`.`auditor_last`;
DELETE FROM `dwh`.`auditor_stage_db7faf71f44ee479`
