-- Copies rows from one table to another.
INSERT INTO ${into} (${columns})
${overriding}
SELECT ${columns}
FROM ${table}
WHERE ${where}
