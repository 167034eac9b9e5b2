-- Deletes the target's rows whose keys lie in an interval.
DELETE FROM ${target} AS merged
WHERE ${interval}
