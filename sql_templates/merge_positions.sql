-- One row per table of a pipeline: its name, the position up to which the target holds it, and the schema it had there.
SELECT table_name, position, schema_id
FROM ${positions}
WHERE pipeline = ${pipeline}
