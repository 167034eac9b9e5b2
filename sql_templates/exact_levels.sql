-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key,
-- the signature (the sums of the 30-bit words of each row's hash) and the syndromes:
-- the sums of the first word times a power of the row's position, modulo 2^31 - 1.
SELECT
  partition_id,
  COUNT(*) AS row_count,
  ${counted} AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words},
  ${syndromes}${console}
FROM (
  SELECT
    partition_id,
    ${kept_key}
    ${word_columns},
    ${powers}${fence_column}
  FROM (
    SELECT
      ${partition} AS partition_id,
      ${kept_key}
      ${position} AS x,
      ${word_sources}${fence_column}
    FROM (
      SELECT
        ${located},
        ${key}
        ${hashed}${fence_column}
      FROM ${table}
      WHERE ${where}
      ${fence}
    ) hashed_rows
    ${fence}
  ) located_rows
  ${fence}
) row_words
GROUP BY partition_id
ORDER BY partition_id
