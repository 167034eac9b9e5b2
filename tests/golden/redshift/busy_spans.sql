SELECT EXTRACT(EPOCH FROM start_time), elapsed_time
FROM sys_query_history
WHERE session_id IN (41, 42) AND start_time >= DATEADD(second, -60, GETDATE())
