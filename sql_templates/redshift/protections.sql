-- One row per policy of row-level security that is attached to a table: what is protected, and the policy.
SELECT DISTINCT CAST('rows' AS VARCHAR(6)), polname
FROM svv_rls_attached_policy
WHERE relschema = ${schema} AND relname = ${table} AND is_rls_on
