SELECT COUNT(*)
FROM system.processes
WHERE is_initial_query
