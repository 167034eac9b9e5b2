-- One row, or none if there are no rows: the number of a stretch of the key, its rows, how many of them could be hashed (all, or none
-- if they are more than may be hashed as one), its least and greatest key, and four words of 60 bits: the beginning of the SHA-256 of
-- its rows' texts, in the order of the primary key. GROUP_CONCAT takes rows as they come, which is the order of the index that is read.
SELECT
  ${p}digested_rows.${p}partition_id AS partition_id,
  ${p}digested_rows.${p}row_count AS row_count,
  ${p}digested_rows.${p}hashed AS hashed,
  ${p}digested_rows.${p}key_min AS key_min,
  ${p}digested_rows.${p}key_max AS key_max,
  ${words}
FROM (
  SELECT
    ${stretch} AS ${p}partition_id,
    COUNT(*) AS ${p}row_count,
    CASE WHEN COUNT(*) <= ${most} THEN COUNT(*) ELSE 0 END AS ${p}hashed,
    ${least} AS ${p}key_min,
    ${greatest} AS ${p}key_max,
    ${digest} AS ${p}digest
  FROM (
    SELECT
      ${key}
      ${row} AS ${p}v
    FROM ${table} FORCE INDEX (PRIMARY)
    WHERE ${where}
  ) ${p}ordered_rows
  HAVING COUNT(*) > 0
) ${p}digested_rows
