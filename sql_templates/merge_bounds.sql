-- One row per end of an interval of keys: its place in the stream, l for the lower end and h for the upper, and how many columns it has.
SELECT auditor_position, auditor_row, auditor_op, ${width}
FROM ${bounds}
