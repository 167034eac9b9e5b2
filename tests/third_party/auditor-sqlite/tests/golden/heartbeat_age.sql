SELECT (JULIANDAY('now') - JULIANDAY(MAX("at"))) * 86400.0
FROM "shop"."heartbeat"
