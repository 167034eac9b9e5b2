-- name: live_sums_create
-- Creates the table of a target in which merges store the sums of live summaries.
CREATE TABLE IF NOT EXISTS ${sums} (
  epoch ${name} NOT NULL,
  place ${integer} NOT NULL,
  piece ${integer} NOT NULL,
  previous ${integer} NOT NULL,
  layout ${text} NOT NULL,
  shape ${text} NOT NULL,
  digest ${text} NOT NULL,
  size ${integer} NOT NULL,
  body ${text} NOT NULL,
  PRIMARY KEY (epoch, place, piece)
)

-- name: live_sums
-- One row per piece of what events change in live summaries, in the order of the stream.
SELECT place, piece, previous, layout, shape, digest, body
FROM ${sums}
WHERE epoch = ${epoch}
ORDER BY place, piece

-- name: live_sums_sizes
-- One row: how many rows and characters the sums of an epoch have, their last place, and the digest of their columns.
SELECT COUNT(*), COALESCE(SUM(size), 0), MAX(place), MAX(shape)
FROM ${sums}
WHERE epoch = ${epoch}

-- name: live_sums_insert
-- Stores one piece of what the events after one place of the stream, up to another, change in live summaries.
INSERT INTO ${sums} (epoch, place, piece, previous, layout, shape, digest, size, body)
VALUES (${epoch}, ${place}, ${piece}, ${previous}, ${layout}, ${shape}, ${digest}, ${size}, ${body})

-- name: live_sums_delete
-- Deletes the sums of epochs.
DELETE FROM ${sums}
WHERE epoch IN (${epochs})

-- name: ledger_create
-- Creates the table of a target in which each merge stores what it did otherwise than the source's log says.
CREATE TABLE IF NOT EXISTS ${ledger} (
  epoch ${name} NOT NULL,
  place ${integer} NOT NULL,
  piece ${integer} NOT NULL,
  previous ${integer} NOT NULL,
  batches ${integer} NOT NULL,
  merged_at ${text} NOT NULL,
  version ${text} NOT NULL,
  digest ${text} NOT NULL,
  size ${integer} NOT NULL,
  body ${text} NOT NULL,
  PRIMARY KEY (epoch, place, piece)
)

-- name: ledger
-- One row per piece of what merges did otherwise than the source's log says, in the order of the stream.
SELECT place, piece, previous, batches, merged_at, version, digest, body
FROM ${ledger}
WHERE epoch = ${epoch}
ORDER BY place, piece

-- name: ledger_sizes
-- One row: how many rows and characters the ledger of an epoch has.
SELECT COUNT(*), COALESCE(SUM(size), 0)
FROM ${ledger}
WHERE epoch = ${epoch}

-- name: ledger_insert
-- Stores one piece of what a merge did otherwise than the source's log says; an empty body says that it did the same.
INSERT INTO ${ledger} (epoch, place, piece, previous, batches, merged_at, version, digest, size, body)
VALUES (${epoch}, ${place}, ${piece}, ${previous}, ${batches}, ${merged_at}, ${version}, ${digest}, ${size}, ${body})

-- name: ledger_delete
-- Deletes what ledgers have of epochs, or of one up to a place of the stream.
DELETE FROM ${ledger}
WHERE epoch IN (${epochs})${through}
