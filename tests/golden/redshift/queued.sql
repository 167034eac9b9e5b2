SELECT COUNT(*)
FROM sys_query_history
WHERE status = 'queued' AND start_time >= DATEADD(day, -1, GETDATE())
