-- One row per table of the connection's database: schema, table.
SHOW TABLES
