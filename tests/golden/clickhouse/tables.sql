SELECT database, name, endsWith(engine, 'View'), true, COUNT(*) OVER ()
FROM system.tables
WHERE database = currentDatabase() AND NOT is_temporary AND NOT startsWith(name, '.inner')
ORDER BY database, name
