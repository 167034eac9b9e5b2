-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key,
-- the signature (the sums of the first four 32-bit words of each row's hash) and k minhashes.
SELECT
  ${p}row_words.${p}partition_id AS partition_id,
  COUNT(*) AS row_count,
  COUNT(${p}row_words.${p}w3) AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words},
  ${minhashes}${console}
FROM (
  SELECT
    ${partition} AS ${p}partition_id,
    ${key_of_hashed}
    ${word_columns}${fence_column}
  FROM (
    SELECT
      ${located},
      ${key}
      ${hash} AS ${p}h${fence_column}
    FROM ${table}
    WHERE ${where}
    ${fence}
  ) ${p}hashed_rows
  ${fence}
) ${p}row_words
GROUP BY ${p}row_words.${p}partition_id
ORDER BY ${p}row_words.${p}partition_id
