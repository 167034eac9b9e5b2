-- One row per stretch: its id, its rows, how many of them could be hashed, its least and greatest key, and the sum of the first
-- 60 bits of each row's hash, in two words. The word is used once, and so computed once without the derived table being stored:
-- a row adds 10^30 to the sum for having been hashed. 10^30 is a multiple of 2^30.
SELECT
  partition_id AS partition_id,
  row_count AS row_count,
  CAST(total DIV 1000000000000000000000000000000 AS SIGNED) AS hashed,
  key_min AS key_min,
  key_max AS key_max,
  CAST(total % 1000000000000000000000000000000 DIV 1073741824 AS SIGNED) AS word_0,
  CAST(total % 1073741824 AS SIGNED) AS word_1
FROM (
  SELECT
    ${partition} AS partition_id,
    COUNT(*) AS row_count,
    ${least} AS key_min,
    ${greatest} AS key_max,
    COALESCE(SUM(v + 1000000000000000000000000000000), 0) AS total
  FROM (
    SELECT
      ${located},
      ${key}
      ${word} AS v
    FROM ${table}
    WHERE ${where}
  ) hashed_rows
  ${group}
) summed_rows
ORDER BY partition_id
