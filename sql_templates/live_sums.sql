-- One row per piece of what events change in live summaries, in the order of the stream.
SELECT place, piece, previous, layout, shape, digest, body
FROM ${sums}
WHERE epoch = ${epoch}
ORDER BY place, piece
