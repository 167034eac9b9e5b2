CREATE TABLE IF NOT EXISTS "shop"."auditor_heartbeat" (
  id integer PRIMARY KEY,
  serial bigint NOT NULL,
  beat_at timestamp(6) NOT NULL,
  server bigint NOT NULL
);
INSERT INTO "shop"."auditor_heartbeat" AS beat (id, serial, beat_at, server)
VALUES (1, 1, clock_timestamp() AT TIME ZONE 'UTC', 0)
ON CONFLICT (id) DO UPDATE SET serial = beat.serial + 1, beat_at = excluded.beat_at;
SELECT serial, beat_at
FROM "shop"."auditor_heartbeat"
WHERE id = 1
