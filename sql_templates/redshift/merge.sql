-- name: merge_stage_clear
-- Removes the staging table, because to truncate it would commit what was merged.
DROP TABLE ${stage}

-- name: merge_delete
-- Deletes the target's rows whose keys were changed.
DELETE FROM ${target}
USING ${last}
WHERE ${matching}
