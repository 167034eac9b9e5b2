-- Updates the target's rows to which their last change gives other values.
UPDATE ${last} AS changed
STRAIGHT_JOIN ${target} AS merged ON ${matching}
SET ${values}
WHERE changed.auditor_op = 'i' AND ${differing}
