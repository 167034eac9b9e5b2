SELECT CAST("id" AS VARCHAR(41)), "weight", CAST(CAST(ROUND("price", 2) AS DECIMAL(19,2)) AS VARCHAR(41)), (RTRIM(RTRIM(TO_CHAR("at", 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || CASE WHEN "at" >= '0001-01-01' THEN '' ELSE ' BC' END)
FROM "shop"."orders"
WHERE "id" >= 7
