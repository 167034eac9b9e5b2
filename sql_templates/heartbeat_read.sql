-- One row: the serial number of the last heartbeat, and when it was written.
SELECT serial, beat_at
FROM ${table}
WHERE id = 1
