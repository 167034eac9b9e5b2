SELECT name, COUNT(*) OVER ()
FROM system.columns
WHERE database = 'shop' AND table = 'orders' AND default_kind <> 'EPHEMERAL'
ORDER BY position
