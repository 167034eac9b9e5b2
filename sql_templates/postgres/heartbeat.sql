-- name: heartbeat_create
-- Creates the table of heartbeats, which has one row.
CREATE TABLE IF NOT EXISTS ${table} (
  id integer PRIMARY KEY,
  serial bigint NOT NULL,
  beat_at timestamp(6) NOT NULL,
  server bigint NOT NULL
)

-- name: heartbeat_write
-- Writes the next heartbeat: its serial number and the time in UTC. PostgreSQL's servers have no number, so that ``server`` is 0.
INSERT INTO ${table} AS beat (id, serial, beat_at, server)
VALUES (1, 1, clock_timestamp() AT TIME ZONE 'UTC', 0)
ON CONFLICT (id) DO UPDATE SET serial = beat.serial + 1, beat_at = excluded.beat_at
