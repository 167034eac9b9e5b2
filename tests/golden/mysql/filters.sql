SELECT COUNT(*)
FROM `shop`.`orders`
WHERE ((`name` = 'draft' AND CAST((`name` COLLATE utf8mb4_bin) AS BINARY) = CAST('draft' AS BINARY)))
  AND (NOT (CAST((`name` COLLATE utf8mb4_bin) AS BINARY) IN (CAST('draft' AS BINARY), CAST(_utf8mb4 X'456e74777572662066c3bc72207370c3a4746572' AS BINARY))))
  AND ((`name` LIKE 'A!%%' ESCAPE '!' AND (`name` COLLATE utf8mb4_bin) COLLATE utf8mb4_bin LIKE 'A!%_%' ESCAPE '!'))
  AND (((CAST(`price` AS DECIMAL(10,2)) * CAST(1.19 AS DECIMAL(3,2))) > 100 AND `price` < 12.35))
  AND (((`weight` + 0e0) >= 0.5e0 OR `weight` IS NULL))
  AND ((`shipped` >= TIMESTAMP '2026-11-15 10:30:00.000000' AND `shipped` < TIMESTAMP '2026-11-01 00:00:00.000000'))
  AND ((`paid` <> 0 AND NOT (NOT (`paid` <> 0))))
