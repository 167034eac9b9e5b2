-- Makes the schema in which bootstraps of pipelines write on the source.
CREATE DATABASE IF NOT EXISTS ${schema}
