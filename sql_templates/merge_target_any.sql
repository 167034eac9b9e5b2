-- One row if the target's table has any.
SELECT 1
FROM ${target}
LIMIT 1
