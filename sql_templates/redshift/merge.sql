-- name: merge_stage_clear
-- Drops the staging table, because TRUNCATE would commit what was merged.
DROP TABLE ${stage}

-- name: merge_delete
-- Deletes the target's rows whose keys were changed.
DELETE FROM ${target}
USING ${last}
WHERE ${matching}
