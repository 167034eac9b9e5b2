-- Updates the target's rows to which their last change gives other values.
UPDATE ${target} AS merged
SET ${values}
FROM ${last} AS changed
WHERE changed.auditor_op = 'i' AND ${matching} AND ${differing}
