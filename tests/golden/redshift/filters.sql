SELECT COUNT(*) AS row_count
FROM "shop"."orders"
WHERE (("name" = 'draft' AND CAST("name" AS VARBYTE(65535)) = CAST('draft' AS VARBYTE(65535))))
  AND (NOT (CAST("name" AS VARBYTE(65535)) IN (CAST('draft' AS VARBYTE(65535)), CAST('Entwurf für später' AS VARBYTE(65535)))))
  AND ("name" LIKE 'A!%_%' ESCAPE '!')
  AND (((CAST("price" AS DECIMAL(10,2)) * CAST(1.19 AS DECIMAL(3,2))) > 100 AND "price" < 12.35))
  AND ((CAST("weight" AS DOUBLE PRECISION) >= CAST('0.5' AS DOUBLE PRECISION) OR "weight" IS NULL))
  AND (("shipped" >= TIMESTAMP '2026-11-15 10:30:00.000000' AND "shipped" < TIMESTAMP '2026-11-01 00:00:00.000000'))
  AND (("paid" AND NOT (NOT ("paid"))))
