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

-- name: busy_spans
-- One row for each statement that sessions began in the last seconds: when, in seconds since 1970, and microseconds until it ended.
SELECT EXTRACT(EPOCH FROM start_time), elapsed_time
FROM sys_query_history
WHERE session_id IN (${sessions}) AND start_time >= DATEADD(second, -${seconds}, GETDATE())

-- name: serverless_capacity
-- One row: the RPUs of a Serverless workgroup on average over those of the last seconds in which it computed; NULL without any.
-- https://docs.aws.amazon.com/redshift/latest/dg/SYS_SERVERLESS_USAGE.html
SELECT AVG(compute_capacity)
FROM sys_serverless_usage
WHERE end_time >= DATEADD(second, -${seconds}, GETDATE()) AND compute_seconds > 0
