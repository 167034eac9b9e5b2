SELECT EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - MAX("at")) AS seconds
FROM "shop"."heartbeat"
