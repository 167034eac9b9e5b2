-- One row: the number of the last chunk of a bootstrap, and that chunk.
SELECT number, body
FROM ${chunks}
WHERE bootstrap = ${bootstrap}
