SELECT "table", CAST(estimated_visible_rows AS BIGINT)
FROM svv_table_info
WHERE "schema" = 'shop' AND "table" IN ('orders')
