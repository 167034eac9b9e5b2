-- One row per row of a source that is dumped: the values of its columns, as canonical texts but for floating-point numbers.
SELECT ${values}
FROM ${table}
WHERE ${where}
