-- One row per user or role to which a policy of row-level security on a table is attached: what is protected, and the policy.
SELECT CAST('rows' AS VARCHAR(6)), polname
FROM svv_rls_attached_policy
WHERE relschema = ${schema} AND relname = ${table} AND is_rls_on
