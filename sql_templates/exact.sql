-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key,
-- the signature (the sums of the 30-bit words of each row's hash) and the syndromes:
-- the sums of the first word times a power of the row's position, modulo 2^31 - 1.
SELECT
  ${partition} AS partition_id,
  COUNT(*) AS row_count,
  ${counted} AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words},
  ${syndromes}${console}
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
