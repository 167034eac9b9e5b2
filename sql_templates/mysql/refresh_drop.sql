-- Removes a refresh table whose columns are no longer those of its table.
DROP TABLE IF EXISTS ${refresh_table}
