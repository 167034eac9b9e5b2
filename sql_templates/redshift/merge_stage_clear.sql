-- Removes the staging table, because to truncate it would commit what was merged.
DROP TABLE ${stage}
