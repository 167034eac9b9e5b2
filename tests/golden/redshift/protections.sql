SELECT CAST('rows' AS VARCHAR(11)), polname
FROM svv_rls_attached_policy
WHERE relschema = 'shop' AND relname = 'orders' AND is_rls_on
UNION ALL
SELECT CAST('read tables' AS VARCHAR(11)), table_name
FROM svv_tables
WHERE table_schema = 'shop'
  AND table_name = 'orders'
  AND table_type = 'VIEW'
  AND (SELECT COUNT(*) FROM svv_rls_attached_policy WHERE is_rls_on) > 0
