-- One row per row of the table: its partition, the first digits of its hash, and the canonical texts of its key and of the requested columns.
SELECT
  ${partition} AS ${p}partition_id,
  ${digits} AS ${p}row_hash,
  ${texts}
FROM ${table}
WHERE ${where}
