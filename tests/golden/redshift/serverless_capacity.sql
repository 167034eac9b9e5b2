SELECT AVG(compute_capacity)
FROM sys_serverless_usage
WHERE end_time >= DATEADD(second, -60, GETDATE()) AND compute_seconds > 0
