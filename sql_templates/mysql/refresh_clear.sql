-- Empties a refresh table that holds its rows.
TRUNCATE TABLE ${refresh_table}
