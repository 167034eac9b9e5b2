-- One row per grant of the session's user, as the statement that made it.
SHOW GRANTS
