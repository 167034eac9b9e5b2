-- Writes the next heartbeat: its serial number, the time in UTC, and the server that it is written on.
INSERT INTO ${table} (id, serial, beat_at, server)
VALUES (1, 1, UTC_TIMESTAMP(6), @@GLOBAL.server_id)
ON DUPLICATE KEY UPDATE serial = serial + 1, beat_at = UTC_TIMESTAMP(6), server = @@GLOBAL.server_id
