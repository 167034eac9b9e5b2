-- Deletes all rows of a target's table, as the source did.
DELETE FROM ${target}
