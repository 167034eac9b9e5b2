-- One row per row of the table: its partition, the beginning of its hash, and the canonical texts of its key and of what was asked for.
SELECT
  ${partition} AS partition_id,
  LEFT(${hash}, ${digits}) AS row_hash,
  ${texts}
FROM ${table}
WHERE ${where}
