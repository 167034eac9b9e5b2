-- One row per masking policy that is attached to a table: what is protected, and the policy.
SELECT DISTINCT CAST('values' AS VARCHAR(6)), policy_name
FROM svv_attached_masking_policy
WHERE schema_name = ${schema} AND table_name = ${table}
