-- One row per row of a table that meets a condition: values of its columns, or what is made of them.
SELECT ${values}
FROM ${table}
WHERE ${where}
