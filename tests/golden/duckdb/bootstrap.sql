CREATE TABLE "shop"."auditor_new" AS SELECT * FROM "shop"."orders" LIMIT 0;
SELECT (CASE WHEN "id" IS NULL THEN '' ELSE ('"' || CAST("id" AS VARCHAR) || '"') END || ',' || CASE WHEN "price" IS NULL THEN '' ELSE ('"' || CAST(CAST("price" AS DECIMAL(38,2)) AS VARCHAR) || '"') END || ',' || CASE WHEN "weight" IS NULL THEN '' ELSE ('"' || CAST("weight" AS VARCHAR) || '"') END || ',' || CASE WHEN "shipped" IS NULL THEN '' ELSE ('"' || CASE WHEN "shipped" < '0001-01-01' AND ISFINITE("shipped") THEN REPLACE(CAST("shipped" AS VARCHAR), ' (BC)', '') || ' BC' ELSE CAST("shipped" AS VARCHAR) END || '"') END || ',' || CASE WHEN "paid" IS NULL THEN '' ELSE ('"' || CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END || '"') END)
FROM "shop"."orders"
WHERE "id" >= 1024 AND "id" < 4096;
INSERT INTO "shop"."orders_old" ("id", "name", "price", "weight", "shipped", "paid")
SELECT "id", "name", "price", "weight", "shipped", "paid"
FROM "shop"."orders"
WHERE 1 = 1;
DELETE FROM "shop"."orders"
WHERE "id" >= 1024 AND "id" < 4096;
DROP TABLE IF EXISTS "shop"."auditor_new"
