SELECT COUNT(*)
FROM "shop"."orders"
WHERE (("name" = 'draft' AND ((CAST("name" AS VARCHAR) COLLATE C) COLLATE C) = ('draft' COLLATE C)))
  AND (NOT (((CAST("name" AS VARCHAR) COLLATE C) COLLATE C) IN (('draft' COLLATE C), ('Entwurf für später' COLLATE C))))
  AND (((CAST("name" AS VARCHAR) COLLATE C) COLLATE C) LIKE 'A!%_%' ESCAPE '!')
  AND (((CAST("price" AS DECIMAL(19,2)) * CAST(1.19 AS DECIMAL(19,2))) > 100 AND "price" < 12.35))
  AND ((CAST("weight" AS DOUBLE) >= CAST('0.5' AS DOUBLE) OR "weight" IS NULL))
  AND (("shipped" >= TIMESTAMP '2026-11-15 10:30:00.000000' AND "shipped" < TIMESTAMP '2026-11-01 00:00:00.000000'))
  AND (("paid" AND NOT (NOT ("paid"))))
