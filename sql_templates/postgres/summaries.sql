-- name: stretches
-- One row per stretch of the key that has rows: its number, its rows, how many of them could be hashed (all, or none if they are more
-- than may be hashed as one), its least and greatest key, and four words of 60 bits: the beginning of the SHA-256 of its rows' texts, in
-- the order of the key. Of more rows than may be hashed, one more is read, and the others are not counted. The planner does not look
-- into the limit, expects it to be reached early, and so reads by the index, which costs less than to sort what is hashed.
SELECT
  ${p}stretches.${p}partition_id AS partition_id,
  ${p}digested_rows.${p}row_count AS row_count,
  ${p}digested_rows.${p}hashed AS hashed,
  ${p}digested_rows.${p}key_min AS key_min,
  ${p}digested_rows.${p}key_max AS key_max,
  ${words}
FROM ${stretches}
CROSS JOIN LATERAL (
  SELECT
    COUNT(*) AS ${p}row_count,
    CASE WHEN COUNT(*) <= ${most} THEN COUNT(*) ELSE 0 END AS ${p}hashed,
    ${least} AS ${p}key_min,
    ${greatest} AS ${p}key_max,
    ${digest} AS ${p}digest
  FROM (
    SELECT
      ${key}
      ${row} AS ${p}v
    FROM ${table}
    WHERE ${where}
    ORDER BY ${order}
    LIMIT (SELECT ${most} + 1)
  ) ${p}ordered_rows
) ${p}digested_rows
WHERE ${p}digested_rows.${p}row_count > 0
ORDER BY 1
