-- One row, or none if there are no rows: 0 for the id, the rows, how many of them could be hashed, their least and greatest key,
-- and the signature: the sums of the two 30-bit words of the first 60 bits of each row's hash.
SELECT
  0 AS partition_id,
  COUNT(*) AS row_count,
  ${counted} AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words}
FROM (
  SELECT
    ${key}
    ${word} AS ${p}v${fence_column}
  FROM ${table}
  WHERE ${where}
  ${fence}
) ${p}hashed_rows
HAVING COUNT(*) > 0
