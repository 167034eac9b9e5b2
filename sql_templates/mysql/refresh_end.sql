-- Deletes what was kept of a bootstrap.
DELETE FROM ${chunks}
WHERE bootstrap = ${bootstrap}
