-- name: evidence_heads_create
-- Creates the table of a target in which the head of each audit's chain of evidence is stored after each run.
CREATE TABLE IF NOT EXISTS ${heads} (
  audit ${name} NOT NULL,
  number ${integer} NOT NULL,
  head ${text} NOT NULL,
  published_at ${text} NOT NULL
)

-- name: evidence_heads_insert
-- Stores the head of an audit's chain of evidence.
INSERT INTO ${heads} (audit, number, head, published_at)
VALUES (${audit}, ${number}, ${head}, ${published_at})
