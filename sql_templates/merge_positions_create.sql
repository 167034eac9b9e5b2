-- Makes the table of a target that says up to which position it holds each table of a pipeline.
CREATE TABLE IF NOT EXISTS ${positions} (
  pipeline ${name} NOT NULL,
  table_name ${name} NOT NULL,
  position ${integer} NOT NULL,
  schema_id ${text} NOT NULL,
  merged_at ${timestamp} NOT NULL,
  PRIMARY KEY (pipeline, table_name)
)
