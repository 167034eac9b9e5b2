-- One row, or none where this user sees none: how many rows a table has, without those that are deleted and still stored.
SELECT CAST(estimated_visible_rows AS BIGINT)
FROM svv_table_info
WHERE "schema" = ${schema} AND "table" = ${table}
