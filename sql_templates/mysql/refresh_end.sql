-- Deletes what was kept of a refresh.
DELETE FROM ${chunks}
WHERE refresh = ${refresh}
