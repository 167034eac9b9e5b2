-- One row: the number of the last chunk of a refresh, and that chunk.
SELECT number, body
FROM ${chunks}
WHERE refresh = ${refresh}
