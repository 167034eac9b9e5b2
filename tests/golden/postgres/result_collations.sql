SELECT c.place, l.collname
FROM (SELECT 1) AS one
LEFT JOIN (SELECT * FROM (SELECT id FROM orders) read_query LIMIT 0) AS read_query ON FALSE
CROSS JOIN LATERAL (VALUES (0, pg_collation_for(read_query.name))) AS c (place, shown)
JOIN pg_catalog.pg_collation l ON l.oid = CAST(c.shown AS regcollation)
WHERE NOT l.collisdeterministic
