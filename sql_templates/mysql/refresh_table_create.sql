-- Makes a refresh table: the columns of a table of the source, without its key and defaults.
CREATE TABLE ${refresh_table} (
  ${columns}
) ENGINE=${engine}
