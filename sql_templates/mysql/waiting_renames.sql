-- One row per session of this user whose statement looks like a pattern: a rename of a process that ended, which waits for its tables.
SELECT ID
FROM information_schema.PROCESSLIST
WHERE ID <> CONNECTION_ID() AND INFO LIKE ${table}
