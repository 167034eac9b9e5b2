-- Writes one piece of what the events after one place, up to another, change in live summaries.
INSERT INTO ${sums} (epoch, place, piece, previous, layout, shape, digest, size, body)
VALUES (${epoch}, ${place}, ${piece}, ${previous}, ${layout}, ${shape}, ${digest}, ${size}, ${body})
