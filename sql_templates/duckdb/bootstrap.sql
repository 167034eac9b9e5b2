-- name: bootstrap_stage_create
-- Makes an empty table with the columns and types of a target's table; its keys stay with that.
CREATE TABLE ${stage} AS SELECT * FROM ${target} LIMIT 0
