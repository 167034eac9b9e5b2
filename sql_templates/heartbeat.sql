-- name: heartbeat_read
-- One row: the serial number of the last heartbeat, and when it was written.
SELECT serial, beat_at
FROM ${table}
WHERE id = 1

-- name: heartbeat_age
-- One row: seconds since the latest time in a column; NULL where there is none.
SELECT ${age}
FROM ${table}
