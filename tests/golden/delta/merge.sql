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
CREATE TABLE "dwh"."orders" (
  "id" BIGINT,
  "name" VARCHAR,
  PRIMARY KEY ("id")
);
DROP TABLE IF EXISTS "auditor_stage_db7faf71f44ee479";
CREATE TEMPORARY TABLE "auditor_stage_db7faf71f44ee479" AS
SELECT
  CAST('' AS VARCHAR) AS auditor_attempt,
  CAST(0 AS BIGINT) AS auditor_position,
  CAST(0 AS BIGINT) AS auditor_row,
  CAST('' AS VARCHAR) AS auditor_op,
  "id",
  "name"
FROM "dwh"."orders"
WHERE 1 = 0;
SELECT COUNT(*)
FROM "auditor_stage_db7faf71f44ee479"
WHERE auditor_attempt = 'a1';
CREATE TEMPORARY TABLE "auditor_last" AS
SELECT *
FROM (
  SELECT
    auditor_op,
    "id", "name",
    ROW_NUMBER() OVER (PARTITION BY "id" ORDER BY auditor_position DESC, auditor_row DESC) AS auditor_rank
  FROM "auditor_stage_db7faf71f44ee479"
  WHERE auditor_attempt = 'a1'
) AS ranked
WHERE auditor_rank = 1;
DELETE FROM "dwh"."orders" AS merged
USING "auditor_last" AS changed
WHERE merged."id" = changed."id";
INSERT INTO "dwh"."orders" ("id", "name")
SELECT "id", "name"
FROM "auditor_last"
WHERE auditor_op = 'i';
DROP TABLE "auditor_last";
TRUNCATE TABLE "auditor_stage_db7faf71f44ee479";
DELETE FROM "dwh"."auditor_positions"
WHERE pipeline = 'shop' AND table_name = 'shop.orders';
INSERT INTO "dwh"."auditor_positions" (pipeline, table_name, position, schema_id, merged_at)
VALUES ('shop', 'shop.orders', 4096, '0123456789ab', MAKE_TIMESTAMP(EPOCH_US(NOW())))
