SELECT COUNT(*), COALESCE(SUM(elapsed_time), 0), COALESCE(SUM(queue_time), 0), COALESCE(SUM(execution_time), 0)
FROM sys_query_history
WHERE session_id IN (41, 42) AND start_time >= DATEADD(second, -60, GETDATE())
