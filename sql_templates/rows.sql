-- One row per row of the table: how many there are, where an engine cuts texts that are stored on the way; its partition, the first digits of
-- its hash, and the canonical texts of its key and of the requested columns.
SELECT
  ${total}
  ${partition} AS ${p}partition_id,
  ${digits} AS ${p}row_hash,
  ${texts}
FROM ${table}
WHERE ${where}
