SELECT coalesce(max(absolute_delay), 0)
FROM system.replicas
