SELECT name, comment
FROM system.columns
WHERE database = 'shop' AND table = 'orders' AND comment <> ''
UNION ALL
SELECT '', comment
FROM system.tables
WHERE database = 'shop' AND name = 'orders' AND comment <> ''
