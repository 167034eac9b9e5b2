SELECT (toUnixTimestamp64Micro(now64(6, 'UTC')) - toUnixTimestamp64Micro(toDateTime64(MAX("at"), 6, 'UTC'))) / 1e6
FROM "shop"."heartbeat"
