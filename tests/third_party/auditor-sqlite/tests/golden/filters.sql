SELECT COUNT(*)
FROM "shop"."orders"
WHERE (("name" = 'draft' AND ("name" COLLATE BINARY) = ('draft' COLLATE BINARY)))
  AND (NOT (("name" COLLATE BINARY) IN (('draft' COLLATE BINARY), ('Entwurf für später' COLLATE BINARY))))
  AND (("name" COLLATE BINARY) LIKE 'A!%_%' ESCAPE '!')
  AND (((CAST("price" AS DECIMAL(10,2)) * CAST(1.19 AS DECIMAL(3,2))) > 100 AND "price" < 12.35))
  AND ((auditor_double("weight") >= auditor_double('0.5') OR "weight" IS NULL))
  AND (("shipped" >= '2026-11-15 10:30:00' AND "shipped" < '2026-11-01 00:00:00'))
  AND (("paid" AND NOT (NOT ("paid"))))
