-- Deletes the target's rows whose keys were changed.
DELETE FROM ${target}
USING ${last}
WHERE ${matching}
