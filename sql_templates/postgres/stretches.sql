-- One row per stretch of the key that has rows: its number, its rows, how many of them could be hashed (all, or none if they are more
-- than may be hashed as one), its least and greatest key, and four words of 60 bits: the beginning of the SHA-256 of its rows' texts, in
-- the order of the key. Of more rows than may be hashed, one more is read, and the others are not counted.
SELECT
  partition_id,
  row_count,
  hashed,
  key_min,
  key_max,
  ${words}
FROM GENERATE_SERIES(CAST(${first} AS BIGINT), CAST(${last} AS BIGINT)) AS stretches(partition_id)
CROSS JOIN LATERAL (
  SELECT
    COUNT(*) AS row_count,
    CASE WHEN COUNT(*) <= ${most} THEN COUNT(*) ELSE 0 END AS hashed,
    MIN(k) AS key_min,
    MAX(k) AS key_max,
    ${digest} AS digest
  FROM (
    SELECT
      ${key} AS k,
      ${row} AS v
    FROM ${table}
    WHERE ${where}
    ORDER BY ${key}
    LIMIT ${most} + 1
  ) ordered_rows
) digested_rows
WHERE row_count > 0
ORDER BY partition_id
