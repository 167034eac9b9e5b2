SELECT 'rows', short_name
FROM system.row_policies
WHERE (database = 'shop' OR database = '') AND (table = 'orders' OR table = '')
