-- Sets the ends of the intervals of keys aside that an attempt loaded.
CREATE TEMPORARY TABLE ${bounds} AS
SELECT auditor_position, auditor_row, auditor_op, ${key}
FROM ${stage}
WHERE auditor_attempt = ${attempt} AND auditor_op IN ('l', 'h')
