SELECT COUNT(*)
FROM `shop`.`orders`
WHERE ((`name` = 'draft' AND (`name` COLLATE UTF8_BINARY) = ('draft' COLLATE UTF8_BINARY)))
  AND (NOT ((`name` COLLATE UTF8_BINARY) IN (('draft' COLLATE UTF8_BINARY), ('Entwurf für später' COLLATE UTF8_BINARY))))
  AND ((`name` COLLATE UTF8_BINARY) LIKE 'A!%_%' ESCAPE '!')
  AND (((CAST(`price` AS DECIMAL(10,2)) * CAST(1.19 AS DECIMAL(3,2))) > 100 AND `price` < 12.35))
  AND ((CAST(`weight` AS DOUBLE) >= CAST('0.5' AS DOUBLE) OR `weight` IS NULL))
  AND ((`shipped` >= TIMESTAMP '2026-11-15 10:30:00.000000' AND `shipped` < TIMESTAMP '2026-11-01 00:00:00.000000'))
  AND ((`paid` AND NOT (NOT (`paid`))))
