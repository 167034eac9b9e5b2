-- name: tables
-- One row per table or view of the connection's database, or of all if it has none: schema, name, whether it is a view, whether its name
-- is enough to find it, and how many rows there are. MariaDB lists the session's temporary tables, too, from 11.2.
-- https://mariadb.com/docs/server/reference/system-tables/information-schema/information-schema-tables/information-schema-tables-table
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE LIKE '%VIEW', DATABASE() IS NOT NULL, COUNT(*) OVER ()
FROM information_schema.TABLES
WHERE TABLE_TYPE <> 'TEMPORARY'
  AND (
    TABLE_SCHEMA = DATABASE()
    OR (DATABASE() IS NULL AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys'))
  )
ORDER BY TABLE_SCHEMA, TABLE_NAME

-- name: columns
-- One row per column of a table: schema, table, column, native type (with a character set other than utf8mb4), whether it may be NULL, and
-- its collation unless under that only texts of the same characters are equal; and how many rows there are; in the
-- table's order.
SELECT
  TABLE_SCHEMA,
  TABLE_NAME,
  COLUMN_NAME,
  CONCAT(COLUMN_TYPE, CASE WHEN CHARACTER_SET_NAME <> 'utf8mb4' THEN CONCAT(' character set ', CHARACTER_SET_NAME) ELSE '' END),
  IS_NULLABLE = 'YES',
  CASE WHEN COLLATION_NAME LIKE '%0900_bin' OR COLLATION_NAME LIKE '%nopad_bin' THEN NULL ELSE COLLATION_NAME END,
  COUNT(*) OVER ()
FROM information_schema.COLUMNS
WHERE LOWER(TABLE_NAME) = LOWER(${table}) AND (TABLE_SCHEMA = ${schema} OR (${schema} IS NULL AND TABLE_SCHEMA = DATABASE()))
ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION

-- name: primary_key
-- One row per column of the primary key, in the key's order, and how many these are; without the end of a row's period, with which MariaDB
-- completes the key of a system-versioned table for the rows of its history. Each part names the table, as MariaDB otherwise opens all there are.
SELECT s.COLUMN_NAME, COUNT(*) OVER ()
FROM information_schema.STATISTICS AS s
WHERE s.TABLE_SCHEMA = ${schema} AND s.TABLE_NAME = ${table} AND s.INDEX_NAME = 'PRIMARY'
  AND s.COLUMN_NAME NOT IN (
    SELECT c.COLUMN_NAME
    FROM information_schema.COLUMNS AS c
    WHERE c.TABLE_SCHEMA = ${schema} AND c.TABLE_NAME = ${table} AND c.GENERATION_EXPRESSION = 'ROW END'
  )
  AND (
    s.COLUMN_NAME IN (SELECT c.COLUMN_NAME FROM information_schema.COLUMNS AS c WHERE c.TABLE_SCHEMA = ${schema} AND c.TABLE_NAME = ${table})
    OR NOT EXISTS (
      SELECT 1
      FROM information_schema.TABLES AS t
      WHERE t.TABLE_SCHEMA = ${schema} AND t.TABLE_NAME = ${table} AND t.TABLE_TYPE = 'SYSTEM VERSIONED'
    )
  )
ORDER BY s.SEQ_IN_INDEX

-- name: estimate
-- One row: the engine's own estimate of how many rows there are, NULL where it has none, and whether the table
-- is partitioned, so that its primary key's index does not yield the rows in its order.
SELECT TABLE_ROWS, CREATE_OPTIONS LIKE '%partitioned%'
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table}

-- name: comments
-- One row per comment of a table: the column, or '' for the table itself, and its comment.
SELECT COLUMN_NAME, COLUMN_COMMENT
FROM information_schema.COLUMNS
WHERE TABLE_NAME = ${table} AND TABLE_SCHEMA = ${schema} AND COLUMN_COMMENT <> ''
UNION ALL
SELECT '', TABLE_COMMENT
FROM information_schema.TABLES
WHERE TABLE_NAME = ${table} AND TABLE_SCHEMA = ${schema} AND TABLE_COMMENT <> '' AND TABLE_TYPE <> 'VIEW'

-- name: definition
-- One row of a table, or of a view: its name, and the statement that makes it.
SHOW CREATE TABLE ${table}

-- name: indexes
-- One row per column of each index of a table.
SHOW INDEX FROM ${table}

-- name: hazards
-- One row per property of a table that decides what a write does to it (Hazard in dialects lists the kinds): its kind, its name, and a
-- column of a unique index.
SELECT 'view', TABLE_NAME, NULL
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND TABLE_TYPE NOT IN ('BASE TABLE', 'SYSTEM VERSIONED')
UNION ALL
SELECT 'storage', t.ENGINE, NULL
FROM information_schema.TABLES t
LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
WHERE t.TABLE_SCHEMA = ${schema}
  AND t.TABLE_NAME = ${table}
  AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND COALESCE(e.TRANSACTIONS, 'NO') <> 'YES'
UNION ALL
SELECT 'trigger', TRIGGER_NAME, NULL
FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = ${schema} AND EVENT_OBJECT_TABLE = ${table}
UNION ALL
-- In these releases the second row of INSERT ... SELECT loses the values of columns without a default, or is refused.
-- https://jira.mariadb.org/browse/MDEV-36026
SELECT 'broken trigger', TRIGGER_NAME, NULL
FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = ${schema} AND EVENT_OBJECT_TABLE = ${table} AND ACTION_TIMING = 'BEFORE'
  AND VERSION() REGEXP '^(10[.]5[.]28|10[.]6[.]21|10[.]11[.]11|11[.]4[.]5|11[.]7[.]2)-'
UNION ALL
SELECT 'cascade', TABLE_NAME, NULL
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE UNIQUE_CONSTRAINT_SCHEMA = ${schema}
  AND REFERENCED_TABLE_NAME = ${table}
  AND (DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION'))
UNION ALL
SELECT 'partitions', TABLE_NAME, NULL
FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND (PARTITION_METHOD LIKE 'RANGE%' OR PARTITION_METHOD LIKE 'LIST%')
GROUP BY TABLE_NAME
HAVING SUM(CASE WHEN PARTITION_DESCRIPTION LIKE '%MAXVALUE%' OR PARTITION_DESCRIPTION LIKE '%DEFAULT%' THEN 1 ELSE 0 END) = 0
UNION ALL
SELECT 'generated', COLUMN_NAME, NULL
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND COALESCE(GENERATION_EXPRESSION, '') <> ''
UNION ALL
SELECT 'on update', COLUMN_NAME, NULL
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND EXTRA LIKE '%on update%'
UNION ALL
SELECT 'default', COLUMN_NAME, NULL
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = ${schema}
  AND TABLE_NAME = ${table}
  AND ((COLUMN_DEFAULT IS NOT NULL AND COLUMN_DEFAULT <> 'NULL') OR EXTRA LIKE '%auto_increment%')
UNION ALL
SELECT 'required', COLUMN_NAME, NULL
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = ${schema}
  AND TABLE_NAME = ${table}
  AND IS_NULLABLE = 'NO'
  AND COLUMN_DEFAULT IS NULL
  AND EXTRA NOT LIKE '%auto_increment%'
  AND COALESCE(GENERATION_EXPRESSION, '') = ''
UNION ALL
SELECT 'unique', INDEX_NAME, COLUMN_NAME
FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND NON_UNIQUE = 0
UNION ALL
SELECT 'refers', CONCAT(CONSTRAINT_NAME, ' ', LPAD(ORDINAL_POSITION, 2, '0')), COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE TABLE_SCHEMA = ${schema}
  AND TABLE_NAME = ${table}
  AND REFERENCED_TABLE_SCHEMA = ${schema}
  AND REFERENCED_TABLE_NAME = ${table}
UNION ALL
SELECT 'referred', CONCAT(CONSTRAINT_NAME, ' ', LPAD(ORDINAL_POSITION, 2, '0')), REFERENCED_COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE TABLE_SCHEMA = ${schema}
  AND TABLE_NAME = ${table}
  AND REFERENCED_TABLE_SCHEMA = ${schema}
  AND REFERENCED_TABLE_NAME = ${table}

-- name: catalogue_version
-- One row: a text that is another once a table of a schema, or a column, trigger, unique index, foreign key or partition of it, was made,
-- altered or dropped.
SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(definition)), ' ', BIT_XOR(CAST(CONV(LEFT(SHA2(definition, 256), 15), 16, 10) AS UNSIGNED)))
FROM (
  SELECT CONCAT_WS('|', 'table', TABLE_NAME, TABLE_TYPE, ENGINE) AS definition
  FROM information_schema.TABLES
  WHERE TABLE_SCHEMA = ${schema}
  UNION ALL
  SELECT
    CONCAT_WS(
      '|', 'column', TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE,
      COLUMN_DEFAULT IS NULL, COALESCE(COLUMN_DEFAULT, ''), EXTRA, COALESCE(GENERATION_EXPRESSION, '')
    )
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = ${schema}
  UNION ALL
  SELECT CONCAT_WS('|', 'trigger', EVENT_OBJECT_TABLE, TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION, CREATED)
  FROM information_schema.TRIGGERS
  WHERE EVENT_OBJECT_SCHEMA = ${schema}
  UNION ALL
  SELECT CONCAT_WS('|', 'index', TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COALESCE(COLUMN_NAME, ''))
  FROM information_schema.STATISTICS
  WHERE TABLE_SCHEMA = ${schema} AND NON_UNIQUE = 0
  UNION ALL
  SELECT CONCAT_WS('|', 'refers', CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME, DELETE_RULE, UPDATE_RULE)
  FROM information_schema.REFERENTIAL_CONSTRAINTS
  WHERE UNIQUE_CONSTRAINT_SCHEMA = ${schema}
  UNION ALL
  SELECT CONCAT_WS('|', 'field', TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION, COLUMN_NAME, REFERENCED_COLUMN_NAME)
  FROM information_schema.KEY_COLUMN_USAGE
  WHERE TABLE_SCHEMA = ${schema} AND REFERENCED_TABLE_SCHEMA = ${schema}
  UNION ALL
  SELECT CONCAT_WS('|', 'partition', TABLE_NAME, PARTITION_NAME, PARTITION_METHOD, COALESCE(PARTITION_DESCRIPTION, ''))
  FROM information_schema.PARTITIONS
  WHERE TABLE_SCHEMA = ${schema} AND PARTITION_NAME IS NOT NULL
) AS definitions

-- name: dependents
-- One row per object that depends on a table or limits what may replace it: its kind and its name.
SELECT 'child' AS kind, TABLE_NAME AS name
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE UNIQUE_CONSTRAINT_SCHEMA = ${schema} AND REFERENCED_TABLE_NAME = ${table} AND TABLE_NAME <> REFERENCED_TABLE_NAME
UNION
SELECT 'parent', REFERENCED_TABLE_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = ${schema} AND TABLE_NAME = ${table}

-- name: protections
-- One row if this is a view that reads with the rights of its definer, not of this user: what it is, and the definer.
SELECT 'view', DEFINER
FROM information_schema.VIEWS
WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = ${table} AND SECURITY_TYPE = 'DEFINER'

-- name: origins
-- One row per table that a view reads, itself or by other views: 'view', schema and name; and one where there may be others that this user
-- may not see: 'unknown', an empty schema and why.
WITH RECURSIVE readers (view_schema, view_name, table_schema, table_name) AS (
  SELECT VIEW_SCHEMA, VIEW_NAME, TABLE_SCHEMA, TABLE_NAME
  FROM information_schema.VIEW_TABLE_USAGE
  WHERE VIEW_SCHEMA = ${schema} AND VIEW_NAME = ${table}
  UNION
  SELECT u.VIEW_SCHEMA, u.VIEW_NAME, u.TABLE_SCHEMA, u.TABLE_NAME
  FROM readers r
  JOIN information_schema.VIEW_TABLE_USAGE u ON u.VIEW_SCHEMA = r.table_schema AND u.VIEW_NAME = r.table_name
)
SELECT 'view', table_schema, table_name
FROM readers
UNION ALL
SELECT 'unknown', '', CASE WHEN TABLE_TYPE LIKE '%VIEW' THEN 'view' ELSE 'storage' END
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema}
  AND TABLE_NAME = ${table}
  AND (TABLE_TYPE LIKE '%VIEW' OR ENGINE IN ('FEDERATED', 'MRG_MyISAM', 'CONNECT', 'SPIDER'))

-- name: origins_mariadb
-- One row where a table is a view, or reads other tables: 'unknown', an empty schema and why.
SELECT 'unknown', '', CASE WHEN TABLE_TYPE LIKE '%VIEW' THEN 'view' ELSE 'storage' END
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema}
  AND TABLE_NAME = ${table}
  AND (TABLE_TYPE LIKE '%VIEW' OR ENGINE IN ('FEDERATED', 'MRG_MyISAM', 'CONNECT', 'SPIDER'))
