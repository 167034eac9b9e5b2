-- Empties the staging table, which to truncate would commit what was merged.
DELETE FROM ${stage}
