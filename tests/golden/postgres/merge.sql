CREATE TABLE IF NOT EXISTS "dwh"."auditor_positions" (
  pipeline TEXT NOT NULL,
  table_name TEXT NOT NULL,
  position BIGINT NOT NULL,
  schema_id TEXT NOT NULL,
  merged_at TIMESTAMP(6) NOT NULL,
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
  "name" TEXT,
  "price" NUMERIC(10,2),
  PRIMARY KEY ("id", "name")
);
DROP TABLE IF EXISTS "dwh"."auditor_stage_db7faf71f44ee479";
CREATE UNLOGGED TABLE "dwh"."auditor_stage_db7faf71f44ee479" AS
SELECT
  CAST('' AS TEXT) AS auditor_attempt,
  CAST(0 AS BIGINT) AS auditor_position,
  CAST(0 AS BIGINT) AS auditor_row,
  CAST('' AS TEXT) AS auditor_op,
  "id",
  "name",
  "price"
FROM "dwh"."orders"
WHERE 1 = 0;
SELECT pg_advisory_xact_lock(9087369963929524344);
LOCK TABLE "dwh"."auditor_stage_db7faf71f44ee479" IN ACCESS EXCLUSIVE MODE;
SELECT
  COUNT(*),
  COALESCE(SUM(CASE WHEN auditor_op = 'l' THEN 1 ELSE 0 END), 0)
FROM "dwh"."auditor_stage_db7faf71f44ee479"
WHERE auditor_attempt = 'a1';
DELETE FROM "dwh"."auditor_positions"
WHERE pipeline = 'shop' AND table_name IN ('shop.orders', 'shop.items');
INSERT INTO "dwh"."auditor_positions" (pipeline, table_name, position, schema_id, merged_at)
VALUES
  ('shop', 'shop.orders', 4096, '0123456789ab', (CURRENT_TIMESTAMP AT TIME ZONE 'UTC')),
  ('shop', 'shop.items', 4097, 'ba9876543210', (CURRENT_TIMESTAMP AT TIME ZONE 'UTC'));
SELECT
  auditor_position,
  auditor_row,
  auditor_op,
  CAST("id" AS TEXT),
  (CAST("name" AS TEXT) COLLATE "C")
FROM "dwh"."auditor_stage_db7faf71f44ee479"
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
  FROM "dwh"."auditor_stage_db7faf71f44ee479"
  WHERE auditor_attempt = 'a1' AND auditor_op IN ('i', 'd')
) AS ranked
WHERE auditor_rank = 1;
UPDATE "auditor_last" AS changed
SET auditor_op = 'd'
WHERE changed.auditor_op = 'i' AND (changed.auditor_position < 4096 OR (changed.auditor_position = 4096 AND changed.auditor_row < 2)) AND changed."id" > 7;
DELETE FROM "dwh"."orders" AS merged
WHERE merged."id" > 7
  AND NOT EXISTS (SELECT 1 FROM "auditor_last" AS changed WHERE changed.auditor_op = 'i' AND merged."id" = changed."id" AND merged."name" = changed."name");
DELETE FROM "dwh"."orders" AS merged
USING "auditor_last" AS changed
WHERE merged."id" = changed."id" AND merged."name" = changed."name" AND (changed.auditor_op = 'd' OR record_image_ne(ROW(merged."price"), ROW(changed."price")));
UPDATE "dwh"."orders" AS merged
SET "id" = changed."id", "name" = changed."name", "price" = changed."price"
FROM "auditor_last" AS changed
WHERE changed.auditor_op = 'i' AND merged."id" = changed."id" AND merged."name" = changed."name" AND record_image_ne(ROW(merged."id", merged."name", merged."price"), ROW(changed."id", changed."name", changed."price"));
INSERT INTO "dwh"."orders" ("id", "name", "price")
SELECT "id", "name", "price"
FROM "auditor_last" AS changed
WHERE
  changed.auditor_op = 'i'
  AND NOT EXISTS (SELECT 1 FROM "dwh"."orders" AS merged WHERE merged."id" = changed."id" AND merged."name" = changed."name");
DROP TABLE "auditor_last";
TRUNCATE TABLE "dwh"."auditor_stage_db7faf71f44ee479";
MERGE INTO "dwh"."orders" AS merged
USING "auditor_last" AS changed
ON merged."id" = changed."id" AND merged."name" = changed."name"
WHEN MATCHED AND changed.auditor_op = 'd' THEN
  DELETE
WHEN MATCHED AND changed.auditor_op = 'i' AND record_image_ne(ROW(merged."id", merged."name", merged."price"), ROW(changed."id", changed."name", changed."price")) THEN
  UPDATE SET "id" = changed."id", "name" = changed."name", "price" = changed."price"
WHEN NOT MATCHED AND changed.auditor_op = 'i' THEN
  INSERT ("id", "name", "price") VALUES (changed."id", changed."name", changed."price")
