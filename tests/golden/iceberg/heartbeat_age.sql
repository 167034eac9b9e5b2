SELECT EPOCH(NOW()) - EPOCH(MAX("at"))
FROM "shop"."heartbeat"
