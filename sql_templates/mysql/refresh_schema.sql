-- Makes the schema in which refreshes of pipelines write on the source.
CREATE DATABASE IF NOT EXISTS ${schema}
