-- One row per table that another pipeline fills in this schema: the pipeline, and the table's name in its source.
SELECT pipeline, table_name
FROM ${positions}
WHERE pipeline <> ${pipeline}
