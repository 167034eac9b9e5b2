-- One row per user or role to which a policy of row-level security on a table is attached, and one for a view where such policies exist:
-- what is protected, and the policy. Which tables a view reads is not documented for every kind of view.
SELECT CAST('rows' AS VARCHAR(11)), polname
FROM svv_rls_attached_policy
WHERE relschema = ${schema} AND relname = ${table} AND is_rls_on
UNION ALL
SELECT CAST('read tables' AS VARCHAR(11)), table_name
FROM svv_tables
WHERE table_schema = ${schema}
  AND table_name = ${table}
  AND table_type = 'VIEW'
  AND (SELECT COUNT(*) FROM svv_rls_attached_policy WHERE is_rls_on) > 0
