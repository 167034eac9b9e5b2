-- Marks a batch of a patch.
INSERT INTO ${markers} (patch, batch)
VALUES (${patch}, ${batch})
