CREATE TABLE IF NOT EXISTS "dwh"."auditor_positions" (
  pipeline VARCHAR NOT NULL,
  table_name VARCHAR NOT NULL,
  position BIGINT NOT NULL,
  schema_id VARCHAR NOT NULL,
  merged_at TIMESTAMP NOT NULL,
  PRIMARY KEY (pipeline, table_name)
);
SELECT table_name, position, schema_id
FROM "dwh"."auditor_positions"
WHERE pipeline = 'shop';
SELECT pipeline, table_name
FROM "dwh"."auditor_positions"
WHERE pipeline <> 'shop';
CREATE TABLE "dwh"."orders" (
  "id" BIGINT,
  "name" VARCHAR,
  "price" DECIMAL(10,2),
  PRIMARY KEY ("id", "name")
);
DROP TABLE IF EXISTS "auditor_stage_db7faf71f44ee479";
CREATE TEMPORARY TABLE "auditor_stage_db7faf71f44ee479" AS
SELECT
  CAST('' AS VARCHAR) AS auditor_attempt,
  CAST(0 AS BIGINT) AS auditor_position,
  CAST(0 AS BIGINT) AS auditor_row,
  CAST('' AS VARCHAR) AS auditor_op,
  "id",
  "name",
  "price"
FROM "dwh"."orders"
WHERE 1 = 0;
SELECT
  COUNT(*),
  COALESCE(SUM(CASE WHEN auditor_op = 'l' THEN 1 ELSE 0 END), 0)
FROM "auditor_stage_db7faf71f44ee479"
WHERE auditor_attempt = 'a1';
DELETE FROM "dwh"."auditor_positions"
WHERE pipeline = 'shop' AND table_name IN ('shop.orders', 'shop.items');
INSERT INTO "dwh"."auditor_positions" (pipeline, table_name, position, schema_id, merged_at)
VALUES
  ('shop', 'shop.orders', 4096, '0123456789ab', MAKE_TIMESTAMP(EPOCH_US(NOW()))),
  ('shop', 'shop.items', 4097, 'ba9876543210', MAKE_TIMESTAMP(EPOCH_US(NOW())));
SELECT
  auditor_position,
  auditor_row,
  auditor_op,
  CAST("id" AS VARCHAR),
  (CAST("name" AS VARCHAR) COLLATE C)
FROM "auditor_stage_db7faf71f44ee479"
WHERE auditor_attempt = 'a1' AND auditor_op IN ('l', 'h');
CREATE TEMPORARY TABLE "auditor_last" AS
SELECT *
FROM (
  SELECT
    auditor_position,
    auditor_row,
    auditor_op,
    "id", "name", "price",
    ROW_NUMBER() OVER (PARTITION BY "id", "name" ORDER BY auditor_position DESC, auditor_row DESC) AS auditor_rank
  FROM "auditor_stage_db7faf71f44ee479"
  WHERE auditor_attempt = 'a1' AND auditor_op IN ('i', 'd')
) AS ranked
WHERE auditor_rank = 1;
UPDATE "auditor_last" AS changed
SET auditor_op = 'd'
WHERE changed.auditor_op = 'i' AND (changed.auditor_position < 4096 OR (changed.auditor_position = 4096 AND changed.auditor_row < 2)) AND changed."id" > 7;
DELETE FROM "dwh"."orders" AS merged
WHERE merged."id" > 7;
DELETE FROM "dwh"."orders" AS merged
USING "auditor_last" AS changed
WHERE merged."id" = changed."id" AND merged."name" = changed."name";
INSERT INTO "dwh"."orders" ("id", "name", "price")
SELECT "id", "name", "price"
FROM "auditor_last"
WHERE auditor_op = 'i';
DROP TABLE "auditor_last";
TRUNCATE TABLE "auditor_stage_db7faf71f44ee479"
