-- One row, or none if there are no rows: the number of a stretch of the key, its rows, how many of them could be hashed (all, or none
-- if they are more than may be hashed as one), its least and greatest key, and four words of 60 bits: the beginning of the SHA-256 of
-- its rows' texts, in the order of the primary key. GROUP_CONCAT takes rows as they come, which is the order of the index that is read.
SELECT
  partition_id,
  row_count,
  hashed,
  key_min,
  key_max,
  ${words}
FROM (
  SELECT
    ${stretch} AS partition_id,
    COUNT(*) AS row_count,
    CASE WHEN COUNT(*) <= ${most} THEN COUNT(*) ELSE 0 END AS hashed,
    ${least} AS key_min,
    ${greatest} AS key_max,
    ${digest} AS digest
  FROM (
    SELECT
      ${key}
      ${row} AS v
    FROM ${table} FORCE INDEX (PRIMARY)
    WHERE ${where}
  ) ordered_rows
  HAVING COUNT(*) > 0
) digested_rows
