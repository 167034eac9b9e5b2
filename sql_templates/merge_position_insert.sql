-- Writes up to which position the target holds a table.
INSERT INTO ${positions} (pipeline, table_name, position, schema_id, merged_at)
VALUES (${pipeline}, ${table}, ${position}, ${schema_id}, ${now})
