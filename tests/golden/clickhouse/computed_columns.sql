SELECT name, default_kind, default_expression, COUNT(*) OVER ()
FROM system.columns
WHERE database = 'shop' AND table = 'orders' AND default_kind IN ('DEFAULT', 'MATERIALIZED', 'ALIAS')
ORDER BY position
