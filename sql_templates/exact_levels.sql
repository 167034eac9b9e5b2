-- One row per partition: its id, its rows, how many of them could be hashed, its least and greatest key,
-- the signature (the sums of the 30-bit words of each row's hash) and the syndromes:
-- the sums of the first word times a power of the row's position, modulo 2^31 - 1.
SELECT
  ${p}row_words.${p}partition_id AS partition_id,
  COUNT(*) AS row_count,
  ${counted} AS hashed,
  ${least} AS key_min,
  ${greatest} AS key_max,
  ${words},
  ${syndromes}${console}
FROM (
  SELECT
    ${p}located_rows.${p}partition_id AS ${p}partition_id,
    ${key_of_located}
    ${word_columns},
    ${powers}${fence_column}
  FROM (
    SELECT
      ${partition} AS ${p}partition_id,
      ${key_of_hashed}
      ${position} AS ${p}x,
      ${word_sources}${fence_column}
    FROM (
      SELECT
        ${located},
        ${key}
        ${hashed}${fence_column}
      FROM ${table}
      WHERE ${where}
      ${fence}
    ) ${p}hashed_rows
    ${fence}
  ) ${p}located_rows
  ${fence}
) ${p}row_words
GROUP BY ${p}row_words.${p}partition_id
ORDER BY ${p}row_words.${p}partition_id
