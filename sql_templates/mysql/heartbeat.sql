-- name: heartbeat_create
-- Creates the table of heartbeats, which has one row. A reader of the binary log recognises the table by its name and these types.
CREATE TABLE IF NOT EXISTS ${table} (
  id INT NOT NULL,
  serial BIGINT NOT NULL,
  beat_at DATETIME(6) NOT NULL,
  server BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB

-- name: heartbeat_write
-- Writes the next heartbeat: its serial number, the time in UTC, and the server that it is written on.
INSERT INTO ${table} (id, serial, beat_at, server)
VALUES (1, 1, UTC_TIMESTAMP(6), @@GLOBAL.server_id)
ON DUPLICATE KEY UPDATE serial = serial + 1, beat_at = UTC_TIMESTAMP(6), server = @@GLOBAL.server_id
