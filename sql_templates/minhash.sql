-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key,
-- the signature (the sums of the first four 32-bit words of each row's hash) and k minhashes.
SELECT
  partition_id,
  COUNT(*) AS row_count,
  COUNT(w3) AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words},
  ${minhashes}${console}
FROM (
  SELECT
    ${partition} AS partition_id,
    ${kept_key}
    ${word_columns}${fence_column}
  FROM (
    SELECT
      ${located},
      ${key}
      ${hash} AS h${fence_column}
    FROM ${table}
    WHERE ${where}
    ${fence}
  ) hashed_rows
  ${fence}
) row_words
GROUP BY partition_id
ORDER BY partition_id
