-- name: tables
-- One row per table or view of the session's database: schema, name, whether it is temporary.
SHOW TABLES
