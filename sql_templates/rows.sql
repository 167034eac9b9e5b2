-- name: rows
-- One row per row of the table: how many there are, where an engine cuts texts that are stored on the way; its partition, the first digits
-- of its hash, and the canonical texts of its key and of the requested columns.
SELECT
  ${total}
  ${partition} AS ${p}partition_id,
  ${digits} AS ${p}row_hash,
  ${texts}
FROM ${table}
WHERE ${where}

-- name: values
-- One row per row of a table that meets a condition: values of its columns, or what is made of them.
SELECT ${values}
FROM ${table}
WHERE ${where}

-- name: count
-- One row: how many rows there are.
SELECT COUNT(*)
FROM ${table}
WHERE ${where}

-- name: bare_count
-- One row: the rows of a table, and of these how many meet a condition, how many do not, and of how many that is unknown.
SELECT
  COUNT(*),
  COUNT(CASE WHEN ${condition} THEN 1 END),
  COUNT(CASE WHEN NOT (${condition}) THEN 1 END),
  COUNT(CASE WHEN ${condition} THEN NULL WHEN NOT (${condition}) THEN NULL ELSE 1 END)
FROM ${table}
WHERE ${within}

-- name: counted
-- One row per row of a statement's result: how many there are, and the result's columns. Of an empty result, one row of NULLs.
SELECT read_all.*
FROM (SELECT 1 AS always) AS read_always
LEFT JOIN (
  SELECT COUNT(*) OVER () AS read_total, read_result.*
  FROM (
    ${statement}
  ) AS read_result
) AS read_all ON 1 = 1

-- name: places
-- One row per row: the partition in which it lies, and its place there.
SELECT
  ${partition} AS ${p}partition_id,
  ${place} AS ${p}place
FROM ${table}
WHERE ${where}

-- name: versions
-- One row per row of a table that keeps versions of rows: its columns, and its rank among the rows of its key, which is 1 for the latest
-- and for all that share its version.
SELECT
  ${p}version_rows.*,
  RANK() OVER (PARTITION BY ${key} ORDER BY ${latest}) AS ${p}rank
FROM ${table} ${p}version_rows
WHERE ${where}

-- name: hidden
-- One row: how many rows of a table are not the current ones of their keys, and how many of the others are flagged as deleted.
SELECT
  COUNT(CASE WHEN NOT (${current}) THEN 1 END),
  COUNT(CASE WHEN ${current} AND ${flagged} THEN 1 END)
FROM ${table}

-- name: hidden_versions
-- One row: how many rows of a table that keeps versions are not the current ones of their keys, how many of the others are flagged as
-- deleted, and how many keys have several rows of their latest version; NULL of a table without rows.
SELECT
  SUM(${p}version_keys.${p}older),
  SUM(${p}version_keys.${p}flagged),
  SUM(CASE WHEN ${p}version_keys.${p}latest > 1 THEN 1 ELSE 0 END)
FROM (
  SELECT
    COUNT(CASE WHEN NOT (${current}) THEN 1 END) AS ${p}older,
    COUNT(CASE WHEN ${current} AND ${flagged} THEN 1 END) AS ${p}flagged,
    COUNT(CASE WHEN ${p}ranked_rows.${p}rank = 1 THEN 1 END) AS ${p}latest
  FROM ${table}
  GROUP BY ${key}
) ${p}version_keys
