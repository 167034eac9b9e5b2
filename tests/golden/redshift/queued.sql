SELECT COUNT(*)
FROM stv_wlm_query_state
WHERE service_class > 4 AND state LIKE 'Queued%'
