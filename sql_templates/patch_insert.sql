-- Inserts one row.
INSERT INTO ${target} (${columns}) ${overriding}VALUES (${values})
