UPDATE chunks
SET number = 3, body = 'body'
WHERE refresh = 'refresh' AND attempt = 'attempt' AND number = 7;
CREATE TABLE IF NOT EXISTS chunks (
  refresh VARCHAR(64) NOT NULL,
  pipeline VARCHAR(255) NOT NULL,
  attempt VARCHAR(64) NOT NULL,
  number BIGINT NOT NULL,
  body LONGTEXT NOT NULL,
  PRIMARY KEY (refresh)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO chunks (refresh, pipeline, attempt, number, body)
VALUES ('refresh', 'pipeline', 'attempt', 0, '')
ON DUPLICATE KEY UPDATE attempt = 'attempt';
TRUNCATE TABLE refresh_0123;
SELECT
  3 AS number,
  ORDINAL_POSITION,
  COLUMN_NAME,
  COLUMN_TYPE,
  CHARACTER_SET_NAME,
  COLLATION_NAME,
  IS_NULLABLE = 'YES' AS is_nullable
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = 'auditor_refresh' AND TABLE_NAME = 'orders';
DROP TABLE IF EXISTS refresh_0123;
INSERT INTO refresh_0123 () VALUES ();
DELETE known FROM chunks AS known FORCE INDEX (PRIMARY)
WHERE known.refresh IN ('refresh', 'other');
SELECT CAST(id AS CHAR)
FROM orders FORCE INDEX (PRIMARY)
WHERE id >= 7 AND (id > 7 OR (id = 7 AND FALSE))
ORDER BY id
LIMIT 1 OFFSET 499;
SELECT 3 AS number, COUNT(*) AS few
FROM (
  SELECT 1
  FROM orders FORCE INDEX (PRIMARY)
  WHERE id >= 7 AND (id > 7 OR (id = 7 AND FALSE))
  LIMIT 5000
) AS counted;
INSERT INTO refresh_0123 (id)
SELECT id
FROM orders FORCE INDEX (PRIMARY)
WHERE id >= 7 AND (id > 7 OR (id = 7 AND FALSE))
LOCK IN SHARE MODE;
CREATE DATABASE IF NOT EXISTS auditor_refresh;
SELECT
  @@GLOBAL.read_only,
  @@SESSION.sql_log_bin,
  (SELECT ENGINE FROM information_schema.ENGINES WHERE ENGINE = 'BLACKHOLE' AND SUPPORT IN ('YES', 'DEFAULT'));
SELECT refresh, body
FROM chunks
WHERE refresh IN ('refresh', 'other');
CREATE TABLE refresh_0123 (
  id bigint NULL
) ENGINE=BLACKHOLE;
SELECT CAST(id AS CHAR)
FROM orders FORCE INDEX (PRIMARY)
WHERE id >= 7 AND (id > 7 OR (id = 7 AND FALSE))
LOCK IN SHARE MODE
