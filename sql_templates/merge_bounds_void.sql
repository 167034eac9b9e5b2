-- Makes deletions of the changes of keys in an interval that stand before it in the stream.
UPDATE ${last} AS changed
SET auditor_op = 'd'
WHERE
  changed.auditor_op = 'i'
  AND (changed.auditor_position < ${position} OR (changed.auditor_position = ${position} AND changed.auditor_row < ${row}))
  AND ${interval}
