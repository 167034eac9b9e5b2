SELECT COUNT(*) AS row_count
FROM "shop"."orders"
WHERE 1 = 1
