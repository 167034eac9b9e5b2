-- One row per column of the primary key, in the key's order, and how many these are; without the end of a row's period, with which MariaDB
-- completes the key of a system-versioned table for the rows of its history.
SELECT s.COLUMN_NAME, COUNT(*) OVER ()
FROM information_schema.STATISTICS AS s
LEFT JOIN information_schema.COLUMNS AS c
  ON c.TABLE_SCHEMA = s.TABLE_SCHEMA AND c.TABLE_NAME = s.TABLE_NAME AND c.COLUMN_NAME = s.COLUMN_NAME
WHERE s.TABLE_SCHEMA = ${schema} AND s.TABLE_NAME = ${table} AND s.INDEX_NAME = 'PRIMARY'
  AND COALESCE(c.GENERATION_EXPRESSION, '') <> 'ROW END'
  AND (
    c.COLUMN_NAME IS NOT NULL
    OR NOT EXISTS (
      SELECT 1
      FROM information_schema.TABLES AS t
      WHERE t.TABLE_SCHEMA = ${schema} AND t.TABLE_NAME = ${table} AND t.TABLE_TYPE = 'SYSTEM VERSIONED'
    )
  )
ORDER BY s.SEQ_IN_INDEX
