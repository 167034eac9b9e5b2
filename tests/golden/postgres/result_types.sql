SELECT
  format_type(r.type_id, COALESCE(a.atttypmod, r.modifier)) || CASE WHEN 'e' IN (t.typtype, e.typtype) THEN ' enum' ELSE '' END,
  CASE WHEN format_type(r.type_id, NULL) = 'citext' THEN 'citext' END,
  t.typcollation <> 0
FROM (VALUES (0, CAST(20 AS oid), -1, CAST(0 AS oid), 0)) AS r (place, type_id, modifier, table_id, column_number)
JOIN pg_catalog.pg_type t ON t.oid = r.type_id
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = r.table_id AND a.attnum = r.column_number AND a.atttypid = r.type_id
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
ORDER BY r.place
