-- One row if this is a view that reads with the rights of its definer, not of this user: what it is, and the definer.
SELECT 'view', DEFINER
FROM information_schema.VIEWS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND SECURITY_TYPE = 'DEFINER'
