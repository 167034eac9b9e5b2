SELECT COUNT(*)
FROM "shop"."orders"
WHERE (("name" = 'draft' AND TO_VARBYTE("name", 'utf8') = TO_VARBYTE('draft', 'utf8')))
  AND (NOT (TO_VARBYTE("name", 'utf8') IN (TO_VARBYTE('draft', 'utf8'), TO_VARBYTE('Entwurf für später', 'utf8'))))
  AND (COLLATE("name", 'case_sensitive') LIKE 'A!%_%' ESCAPE '!')
  AND (((CAST("price" AS DECIMAL(10,2)) * CAST(1.19 AS DECIMAL(3,2))) > 100 AND "price" < 12.35))
  AND ((CAST("weight" AS DOUBLE PRECISION) >= CAST('0.5' AS DOUBLE PRECISION) OR "weight" IS NULL))
  AND (("shipped" >= TIMESTAMP '2026-11-15 10:30:00.000000' AND "shipped" < TIMESTAMP '2026-11-01 00:00:00.000000'))
  AND (("paid" AND NOT (NOT ("paid"))))
