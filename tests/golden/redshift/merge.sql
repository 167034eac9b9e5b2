CREATE TABLE IF NOT EXISTS "dwh"."auditor_positions" (
  pipeline VARCHAR(65535) NOT NULL,
  table_name VARCHAR(65535) NOT NULL,
  position BIGINT NOT NULL,
  schema_id VARCHAR(65535) NOT NULL,
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
  "name" VARCHAR(160),
  "price" DECIMAL(10,2),
  PRIMARY KEY ("id", "name")
)
DISTKEY ("id")
SORTKEY ("name", "id");
DROP TABLE IF EXISTS "auditor_stage_db7faf71f44ee479";
CREATE TEMPORARY TABLE "auditor_stage_db7faf71f44ee479" AS
SELECT
  CAST('' AS VARCHAR(65535)) AS auditor_attempt,
  CAST(0 AS BIGINT) AS auditor_position,
  CAST(0 AS BIGINT) AS auditor_row,
  CAST('' AS VARCHAR(65535)) AS auditor_op,
  "id",
  "name",
  "price"
FROM "dwh"."orders"
WHERE 1 = 0;
LOCK "dwh"."auditor_positions";
SELECT
  COUNT(*),
  COALESCE(SUM(CASE WHEN auditor_op = 'l' THEN 1 ELSE 0 END), 0)
FROM "auditor_stage_db7faf71f44ee479"
WHERE auditor_attempt = 'a1';
DELETE FROM "dwh"."auditor_positions"
WHERE pipeline = 'shop' AND table_name IN ('shop.orders', 'shop.items');
INSERT INTO "dwh"."auditor_positions" (pipeline, table_name, position, schema_id, merged_at)
VALUES
  ('shop', 'shop.orders', 4096, '0123456789ab', GETDATE()),
  ('shop', 'shop.items', 4097, 'ba9876543210', GETDATE());
SELECT
  auditor_position,
  auditor_row,
  auditor_op,
  CAST("id" AS VARCHAR(41)),
  "name"
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
    ROW_NUMBER() OVER (PARTITION BY "id", TO_VARBYTE("name", 'utf8') ORDER BY auditor_position DESC, auditor_row DESC) AS auditor_rank
  FROM "auditor_stage_db7faf71f44ee479"
  WHERE auditor_attempt = 'a1' AND auditor_op IN ('i', 'd')
) AS ranked
WHERE auditor_rank = 1;
UPDATE "auditor_last"
SET auditor_op = 'd'
WHERE auditor_op = 'i' AND ("auditor_last".auditor_position < 4096 OR ("auditor_last".auditor_position = 4096 AND "auditor_last".auditor_row < 2)) AND "auditor_last"."id" > 7;
DELETE FROM "dwh"."orders"
WHERE "orders"."id" > 7;
DELETE FROM "dwh"."orders"
USING "auditor_last"
WHERE "orders"."id" = "auditor_last"."id" AND "orders"."name" = "auditor_last"."name" AND TO_VARBYTE("orders"."name", 'utf8') = TO_VARBYTE("auditor_last"."name", 'utf8');
INSERT INTO "dwh"."orders" ("id", "name", "price")
SELECT "id", "name", "price"
FROM "auditor_last"
WHERE auditor_op = 'i';
DROP TABLE "auditor_last";
DROP TABLE "auditor_stage_db7faf71f44ee479";
CREATE TEMPORARY TABLE "auditor_stage_shared" (
  "auditor_table" BIGINT,
  "auditor_op" CHAR(1),
  "c1" VARCHAR(65535),
  "c2" VARCHAR(65535),
  "c3" VARCHAR(65535),
  "c4" VARCHAR(65535),
  "c5" VARCHAR(65535),
  "c6" VARCHAR(65535),
  "c7" VARCHAR(65535),
  "c8" VARCHAR(65535),
  "c9" VARCHAR(65535),
  "c10" VARCHAR(65535),
  "c11" VARCHAR(65535),
  "c12" VARCHAR(65535),
  "c13" VARCHAR(65535),
  "c14" VARCHAR(65535),
  "c15" VARCHAR(65535),
  "c16" VARCHAR(65535),
  "c17" VARCHAR(65535),
  "c18" VARCHAR(65535),
  "c19" VARCHAR(65535),
  "c20" VARCHAR(65535),
  "c21" VARCHAR(65535),
  "c22" VARCHAR(65535),
  "c23" VARCHAR(65535),
  "c24" VARCHAR(65535),
  "c25" VARCHAR(65535),
  "c26" VARCHAR(65535),
  "c27" VARCHAR(65535),
  "c28" VARCHAR(65535),
  "c29" VARCHAR(65535),
  "c30" VARCHAR(65535),
  "c31" VARCHAR(65535),
  "c32" VARCHAR(65535),
  "c33" VARCHAR(65535),
  "c34" VARCHAR(65535),
  "c35" VARCHAR(65535),
  "c36" VARCHAR(65535),
  "c37" VARCHAR(65535),
  "c38" VARCHAR(65535),
  "c39" VARCHAR(65535),
  "c40" VARCHAR(65535),
  "c41" VARCHAR(65535),
  "c42" VARCHAR(65535),
  "c43" VARCHAR(65535),
  "c44" VARCHAR(65535),
  "c45" VARCHAR(65535),
  "c46" VARCHAR(65535),
  "c47" VARCHAR(65535),
  "c48" VARCHAR(65535),
  "c49" VARCHAR(65535),
  "c50" VARCHAR(65535),
  "c51" VARCHAR(65535),
  "c52" VARCHAR(65535),
  "c53" VARCHAR(65535),
  "c54" VARCHAR(65535),
  "c55" VARCHAR(65535),
  "c56" VARCHAR(65535),
  "c57" VARCHAR(65535),
  "c58" VARCHAR(65535),
  "c59" VARCHAR(65535),
  "c60" VARCHAR(65535),
  "c61" VARCHAR(65535),
  "c62" VARCHAR(65535),
  "c63" VARCHAR(65535),
  "c64" VARCHAR(65535)
);
SELECT auditor_table, COUNT(*)
FROM "auditor_stage_shared"
GROUP BY auditor_table;
DELETE FROM "dwh"."orders"
USING "auditor_stage_shared"
WHERE "auditor_stage_shared".auditor_table = 7 AND "orders"."id" = CAST(CASE WHEN "auditor_stage_shared".auditor_table = 7 THEN "auditor_stage_shared"."c1" END AS BIGINT) AND "orders"."name" = "auditor_stage_shared"."c2" AND TO_VARBYTE("orders"."name", 'utf8') = TO_VARBYTE("auditor_stage_shared"."c2", 'utf8');
INSERT INTO "dwh"."orders" ("id", "name", "price", "code", "body", "at")
SELECT CAST(CASE WHEN "auditor_stage_shared".auditor_table = 7 THEN "auditor_stage_shared"."c1" END AS BIGINT), "auditor_stage_shared"."c2", CAST(CASE WHEN "auditor_stage_shared".auditor_table = 7 THEN "auditor_stage_shared"."c3" END AS DECIMAL(10,2)), TO_VARBYTE(CASE WHEN "auditor_stage_shared".auditor_table = 7 THEN "auditor_stage_shared"."c4" END, 'hex'), JSON_PARSE(CASE WHEN "auditor_stage_shared".auditor_table = 7 THEN "auditor_stage_shared"."c5" END), CAST(CASE WHEN "auditor_stage_shared".auditor_table = 7 THEN "auditor_stage_shared"."c6" END AS TIMESTAMP)
FROM "auditor_stage_shared"
WHERE "auditor_stage_shared".auditor_table = 7 AND "auditor_stage_shared".auditor_op = 'i';
DROP TABLE "auditor_stage_shared"
