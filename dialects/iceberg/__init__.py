"""Apache Iceberg: tables of a catalogue of pyiceberg, read by DuckDB."""
