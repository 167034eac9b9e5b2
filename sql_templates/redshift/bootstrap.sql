-- name: bootstrap_stage_create
-- Creates an empty table with the columns, types, distribution and sort keys of a target's table.
CREATE TABLE ${stage} (LIKE ${target})
