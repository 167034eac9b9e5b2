SELECT COUNT(*)
FROM "shop"."orders"
WHERE (("name" = 'draft' AND "name" = 'draft'))
  AND (NOT ("name" IN ('draft', 'Entwurf für später')))
  AND ("name" LIKE 'A\\%_%')
  AND (((CAST("price" AS Decimal(39,2)) * CAST(toDecimal256('1.19', 2) AS Decimal(39,2))) > 100 AND "price" < toDecimal256('12.35', 2)))
  AND ((toFloat64("weight") >= toFloat64('0.5') OR "weight" IS NULL))
  AND (("shipped" >= toDateTime64('2026-11-15 10:30:00.000000', 6, 'UTC') AND "shipped" < toDateTime64('2026-11-01 00:00:00.000000', 6, 'UTC')))
  AND (("paid" AND NOT (NOT ("paid"))))
