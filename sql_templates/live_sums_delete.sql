-- Deletes the sums of epochs.
DELETE FROM ${sums}
WHERE epoch IN (${epochs})
