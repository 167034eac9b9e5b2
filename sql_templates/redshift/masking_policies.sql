-- One row per user or role to which a masking policy on a table is attached: what is protected, and the policy.
SELECT CAST('values' AS VARCHAR(6)), policy_name
FROM svv_attached_masking_policy
WHERE schema_name = ${schema} AND table_name = ${table}
