-- name: counts
-- One row per partition: its id, its rows, its least and greatest key, and the measures of each column:
-- how many NULLs; the sum, least and greatest of numbers; the least and greatest of dates and times; the characters and bytes of text.
SELECT
  ${p}m.${p}partition_id AS partition_id,
  ${p}m.${p}row_count AS row_count,
  ${p}m.${p}key_min AS key_min,
  ${p}m.${p}key_max AS key_max,
  ${measures}${console}
FROM (
  SELECT
    ${p}read_rows.${p}partition_id AS ${p}partition_id,
    COUNT(*) AS ${p}row_count,
    ${least} AS ${p}key_min,
    ${greatest} AS ${p}key_max,
    ${folded}
  FROM (
    SELECT
      ${partition} AS ${p}partition_id,
      ${key}
      ${columns}
    FROM ${table}
    WHERE ${where}
  ) ${p}read_rows
  GROUP BY ${p}read_rows.${p}partition_id
) ${p}m
ORDER BY ${p}m.${p}partition_id

-- name: signature
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
GROUP BY ${partition}${by_file}
ORDER BY ${partition}${by_file}

-- name: exact
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
GROUP BY ${partition}${by_file}
ORDER BY ${partition}${by_file}

-- name: exact_levels
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
GROUP BY ${p}row_words.${p}partition_id${by_file}
ORDER BY ${p}row_words.${p}partition_id${by_file}

-- name: minhash
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

-- name: stretch_outside
-- One row, or none if there are no rows: rows that lie in no stretch of the key. They are counted, and not hashed.
SELECT
  0 AS ${p}partition_id,
  COUNT(*) AS ${p}row_count,
  0 AS ${p}hashed,
  ${least} AS ${p}key_min,
  ${greatest} AS ${p}key_max,
  ${words}
FROM ${table}
WHERE ${where}
HAVING COUNT(*) > 0
