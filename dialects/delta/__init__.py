"""Tables that are files: Delta tables, and those of Parquet with a pointer; read by DuckDB, and written by commits."""
