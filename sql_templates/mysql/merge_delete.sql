-- Deletes the target's rows whose keys were changed; looks each up, rather than search the target for all of them.
DELETE merged
FROM ${last} AS changed
STRAIGHT_JOIN ${target} AS merged ON ${matching}
