SELECT (JULIANDAY('now') - JULIANDAY(MAX("at"))) * 86400.0 AS seconds
FROM "shop"."heartbeat"
