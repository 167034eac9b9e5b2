-- name: queued
-- One row: how many statements wait in a queue. A user who is no superuser, and has no unrestricted access to the system log, sees its own.
SELECT COUNT(*)
FROM sys_query_history
WHERE status = 'queued' AND start_time >= DATEADD(day, -1, GETDATE())

-- name: query_history
-- One row: statements that sessions began in the last seconds, and microseconds of them in all, in queues, and being computed.
-- https://docs.aws.amazon.com/redshift/latest/dg/SYS_QUERY_HISTORY.html
SELECT COUNT(*), COALESCE(SUM(elapsed_time), 0), COALESCE(SUM(queue_time), 0), COALESCE(SUM(execution_time), 0)
FROM sys_query_history
WHERE session_id IN (${sessions}) AND start_time >= DATEADD(second, -${seconds}, GETDATE())
