-- One row: how many statements wait in a queue. A user who is no superuser, and has no unrestricted access to the system log, sees its own.
SELECT COUNT(*)
FROM sys_query_history
WHERE status = 'queued' AND start_time >= DATEADD(day, -1, GETDATE())
