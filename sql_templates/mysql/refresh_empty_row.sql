-- Writes a row without values, so that the log names the columns also where no row of the source follows.
INSERT INTO ${refresh_table} () VALUES ()
