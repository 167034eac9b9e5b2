SELECT CAST("id" AS TEXT), "weight", CAST("price" AS TEXT), CAST("at" AS TEXT)
FROM "shop"."orders"
WHERE "id" >= 7
