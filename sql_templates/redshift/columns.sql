-- One row per column of a table: schema, table, column, native type, whether it may be NULL, and how many rows there are;
-- in the table's order.
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
    WHERE (table_name = ${table} OR LOWER(table_name) = LOWER(${table}))
      AND (table_schema = ${schema} OR LOWER(table_schema) = LOWER(${schema}))
  )
FROM svv_columns
WHERE (table_name = ${table} OR LOWER(table_name) = LOWER(${table}))
  AND (table_schema = ${schema} OR LOWER(table_schema) = LOWER(${schema}))
ORDER BY table_schema, table_name, ordinal_position
