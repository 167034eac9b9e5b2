SELECT
  MIN("id") AS key_min,
  MAX("id") AS key_max
FROM "shop"."orders"
WHERE 1 = 1
