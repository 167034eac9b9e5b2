-- One row per stretch of the key that has rows: its number, its rows, how many of them could be hashed (all, or none if they are more
-- than may be hashed as one), its least and greatest key, and four words of 60 bits: the beginning of the SHA-256 of its rows' texts, in
-- the order of the key. Of more rows than may be hashed, one more is read, and the others are not counted. The planner does not look
-- into the limit, expects it to be reached early, and so reads by the index, which costs less than to sort what is hashed.
SELECT
  partition_id,
  row_count,
  hashed,
  key_min,
  key_max,
  ${words}
FROM ${stretches}
CROSS JOIN LATERAL (
  SELECT
    COUNT(*) AS row_count,
    CASE WHEN COUNT(*) <= ${most} THEN COUNT(*) ELSE 0 END AS hashed,
    ${least} AS key_min,
    ${greatest} AS key_max,
    ${digest} AS digest
  FROM (
    SELECT
      ${key}
      ${row} AS v
    FROM ${table}
    WHERE ${where}
    ORDER BY ${order}
    LIMIT (SELECT ${most} + 1)
  ) ordered_rows
) digested_rows
WHERE row_count > 0
ORDER BY partition_id
