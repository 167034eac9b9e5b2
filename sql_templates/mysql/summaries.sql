-- name: signature_joined
-- One row per stretch: its id, its rows, how many of them could be hashed, its least and greatest key, and the sum of the first
-- 60 bits of each row's hash, in two words. The word is used once, and so computed once without the derived table being stored:
-- a row adds 10^30 to the sum for having been hashed. 10^30 is a multiple of 2^30.
SELECT
  ${p}summed_rows.${p}partition_id AS partition_id,
  ${p}summed_rows.${p}row_count AS row_count,
  CAST(${p}summed_rows.${p}total DIV 1000000000000000000000000000000 AS SIGNED) AS hashed,
  ${p}summed_rows.${p}key_min AS key_min,
  ${p}summed_rows.${p}key_max AS key_max,
  CAST(${p}summed_rows.${p}total % 1000000000000000000000000000000 DIV 1073741824 AS SIGNED) AS word_0,
  CAST(${p}summed_rows.${p}total % 1073741824 AS SIGNED) AS word_1
FROM (
  SELECT
    ${partition} AS ${p}partition_id,
    COUNT(*) AS ${p}row_count,
    ${least} AS ${p}key_min,
    ${greatest} AS ${p}key_max,
    COALESCE(SUM(${p}hashed_rows.${p}v + 1000000000000000000000000000000), 0) AS ${p}total
  FROM (
    SELECT
      ${located},
      ${key}
      ${word} AS ${p}v
    FROM ${table}
    WHERE ${where}
  ) ${p}hashed_rows
  GROUP BY ${partition}
) ${p}summed_rows
ORDER BY ${p}summed_rows.${p}partition_id

-- name: stretch
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
