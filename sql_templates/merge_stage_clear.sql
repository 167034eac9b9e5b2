-- Empties a staging table.
TRUNCATE TABLE ${stage}
