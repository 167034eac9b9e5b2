SELECT column_name, column_default IS NOT NULL, encoding, distkey, sortkey
FROM svv_redshift_columns
WHERE database_name = 'live' AND schema_name = 'shop' AND table_name = 'orders'
