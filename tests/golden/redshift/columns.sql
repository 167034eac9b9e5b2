SELECT
  table_schema,
  table_name,
  column_name,
  data_type || CASE
    WHEN data_type = 'numeric' THEN COALESCE('(' || numeric_precision || ',' || numeric_scale || ')', '')
    WHEN data_type IN ('character', 'character varying', 'binary varying') THEN COALESCE('(' || character_maximum_length || ')', '')
    ELSE ''
  END,
  is_nullable IS NULL OR UPPER(is_nullable) <> 'NO',
  (
    SELECT COUNT(*)
    FROM svv_columns
    WHERE (table_name IN ('orders') OR LOWER(table_name) IN (LOWER('orders')))
      AND (table_schema = 'shop' OR LOWER(table_schema) = LOWER('shop'))
  )
FROM svv_columns
WHERE (table_name IN ('orders') OR LOWER(table_name) IN (LOWER('orders')))
  AND (table_schema = 'shop' OR LOWER(table_schema) = LOWER('shop'))
ORDER BY table_schema, table_name, ordinal_position
