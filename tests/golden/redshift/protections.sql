SELECT CAST('rows' AS VARCHAR(6)), polname
FROM svv_rls_attached_policy
WHERE relschema = 'shop' AND relname = 'orders' AND is_rls_on
