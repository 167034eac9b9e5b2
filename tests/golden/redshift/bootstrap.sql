CREATE TABLE "shop"."auditor_new" (LIKE "shop"."orders");
SELECT (CASE WHEN "id" IS NULL THEN ('' || CHR(92) || 'N') ELSE CAST("id" AS VARCHAR(41)) END || '	' || CASE WHEN "price" IS NULL THEN ('' || CHR(92) || 'N') ELSE CAST(CAST(ROUND("price", 2) AS DECIMAL(19,2)) AS VARCHAR(41)) END || '	' || CASE WHEN "weight" IS NULL THEN ('' || CHR(92) || 'N') ELSE CAST("weight" AS VARCHAR(41)) END || '	' || CASE WHEN "shipped" IS NULL THEN ('' || CHR(92) || 'N') ELSE (RTRIM(RTRIM(TO_CHAR("shipped", 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || CASE WHEN "shipped" >= '0001-01-01' THEN '' ELSE ' BC' END) END || '	' || CASE WHEN "paid" IS NULL THEN ('' || CHR(92) || 'N') ELSE CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END END)
FROM "shop"."orders"
WHERE "id" >= 1024 AND "id" < 4096;
INSERT INTO "shop"."orders_old" ("id", "name", "price", "weight", "shipped", "paid")
SELECT "id", "name", "price", "weight", "shipped", "paid"
FROM "shop"."orders"
WHERE 1 = 1;
DELETE FROM "shop"."orders"
WHERE "id" >= 1024 AND "id" < 4096;
DROP TABLE IF EXISTS "shop"."auditor_new"
