-- Notes the head of an audit's chain of evidence.
INSERT INTO ${heads} (audit, number, head, published_at)
VALUES (${audit}, ${number}, ${head}, ${published_at})
