SELECT EPOCH(NOW()) - EPOCH(MAX("at")) AS seconds
FROM "shop"."heartbeat"
