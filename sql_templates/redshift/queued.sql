-- One row: how many statements wait in the queues of users (service classes above 4).
SELECT COUNT(*)
FROM stv_wlm_query_state
WHERE service_class > 4 AND state LIKE 'Queued%'
