SELECT CAST('values' AS VARCHAR(6)), policy_name
FROM svv_attached_masking_policy
WHERE schema_name = 'shop' AND table_name = 'orders'
