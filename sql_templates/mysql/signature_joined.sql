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
  ${group}
) ${p}summed_rows
ORDER BY ${p}summed_rows.${p}partition_id
