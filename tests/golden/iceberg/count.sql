SELECT COUNT(*)
FROM "shop"."orders"
WHERE 1 = 1
