-- name: bootstrap_stage_create
-- Creates an empty table with the columns and types of a target's table, without its keys.
CREATE TABLE ${stage} AS SELECT * FROM ${target} LIMIT 0
