-- One row per table or view of the file: schema, name, whether it is a view, whether its name is enough to find it,
-- and how many rows there are.
SELECT 'main', name, type = 'view', TRUE, COUNT(*) OVER ()
FROM sqlite_schema
WHERE type IN ('table', 'view') AND SUBSTR(name, 1, 7) <> 'sqlite_'
ORDER BY name
