-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key,
-- and the signature: the sums of the two 30-bit words of the first 60 bits of each row's hash.
SELECT
  ${partition} AS partition_id,
  COUNT(*) AS row_count,
  ${counted} AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words}${console}
FROM (
  SELECT
    ${located},
    ${key}
    ${word} AS ${p}v${fence_column}
  FROM ${table}
  WHERE ${where}
  ${fence}
) ${p}hashed_rows
GROUP BY ${partition}
ORDER BY ${partition}
