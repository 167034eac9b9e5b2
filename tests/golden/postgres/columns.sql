WITH RECURSIVE declared AS (
  SELECT n.nspname, c.relname, a.attnum, a.attname, a.attnotnull, a.attcollation, a.atttypid, a.atttypid AS type_id, a.atttypmod AS modifier
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
  WHERE a.attnum > 0
    AND NOT a.attisdropped
    AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
    AND (c.relname IN ('orders') OR LOWER(CAST(c.relname AS TEXT) COLLATE "default") IN (LOWER('orders')))
    AND (n.nspname = 'shop' OR ('shop' IS NULL AND pg_table_is_visible(c.oid)))
),
resolved AS (
  SELECT * FROM declared
  UNION ALL
  SELECT r.nspname, r.relname, r.attnum, r.attname, r.attnotnull, r.attcollation, r.atttypid, t.typbasetype, t.typtypmod
  FROM resolved r
  JOIN pg_catalog.pg_type t ON t.oid = r.type_id
  WHERE t.typtype = 'd'
)
SELECT
  r.nspname,
  r.relname,
  r.attname,
  CASE WHEN r.atttypid <> r.type_id THEN format_type(r.atttypid, NULL) || ' domain of ' ELSE '' END
    || format_type(r.type_id, r.modifier)
    || CASE WHEN 'e' IN (t.typtype, e.typtype) THEN ' enum' ELSE '' END
    || COALESCE(
      (
        SELECT ' struct<' || STRING_AGG(quote_ident(f.attname) || ' ' || format_type(f.atttypid, f.atttypmod), ', ' ORDER BY f.attnum) || '>'
        FROM pg_catalog.pg_attribute f
        WHERE t.typtype = 'c' AND f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped
      ),
      ''
    ),
  NOT r.attnotnull,
  CASE WHEN format_type(r.type_id, NULL) = 'citext' THEN 'citext' WHEN NOT l.collisdeterministic THEN l.collname END,
  COUNT(*) OVER ()
FROM resolved r
JOIN pg_catalog.pg_type t ON t.oid = r.type_id
LEFT JOIN pg_catalog.pg_collation l ON l.oid = r.attcollation
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE t.typtype <> 'd'
ORDER BY r.nspname, r.relname, r.attnum
