-- Gives a refresh to one attempt: it waits for a chunk that another is writing, after which that one can write no more.
INSERT INTO ${chunks} (refresh, pipeline, attempt, number, body)
VALUES (${refresh}, ${pipeline}, ${attempt}, 0, '')
ON DUPLICATE KEY UPDATE attempt = ${attempt}
