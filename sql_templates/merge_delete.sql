-- Deletes the target's rows whose keys were changed.
DELETE FROM ${target} AS merged
USING ${last} AS changed
WHERE ${matching}
