CREATE TABLE "shop"."auditor_new" (LIKE "shop"."orders" INCLUDING GENERATED INCLUDING INDEXES);
SELECT (CASE WHEN "id" IS NULL THEN '\N' ELSE CAST("id" AS TEXT) END || '	' || CASE WHEN "price" IS NULL THEN '\N' ELSE CAST("price" AS TEXT) END || '	' || CASE WHEN "weight" IS NULL THEN '\N' ELSE CAST("weight" AS TEXT) END || '	' || CASE WHEN "shipped" IS NULL THEN '\N' ELSE CAST("shipped" AS TEXT) END || '	' || CASE WHEN "paid" IS NULL THEN '\N' ELSE CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END END)
FROM "shop"."orders"
WHERE "id" >= 1024 AND "id" < 4096;
INSERT INTO "shop"."orders_old" ("id", "name", "price", "weight", "shipped", "paid")
SELECT "id", "name", "price", "weight", "shipped", "paid"
FROM "shop"."orders"
WHERE 1 = 1;
DELETE FROM "shop"."orders"
WHERE "id" >= 1024 AND "id" < 4096;
DROP TABLE IF EXISTS "shop"."auditor_new"
