"""Delta tables: read by DuckDB from the files of one version, and written by commits of deltalake."""
