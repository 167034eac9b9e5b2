SELECT
  MIN("id"),
  MAX("id")
FROM "shop"."orders"
WHERE 1 = 1
