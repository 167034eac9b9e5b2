-- One row per column of a table of any database: database, schema, table, column, native type, whether it may be NULL; in the table's order.
SELECT
  database_name,
  schema_name,
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
    FROM svv_all_columns
    WHERE LOWER(database_name) = LOWER(${database})
      AND LOWER(schema_name) = LOWER(${schema})
      AND LOWER(table_name) = LOWER(${table})
  )
FROM svv_all_columns
WHERE LOWER(database_name) = LOWER(${database})
  AND LOWER(schema_name) = LOWER(${schema})
  AND LOWER(table_name) = LOWER(${table})
ORDER BY database_name, schema_name, table_name, ordinal_position
