SELECT name, part, COUNT(*) OVER ()
FROM (
  SELECT name, part, place
  FROM system.tables
  ARRAY JOIN splitByString(', ', sorting_key) AS part, arrayEnumerate(splitByString(', ', sorting_key)) AS place
  WHERE database = 'shop'
    AND name IN ('orders')
    AND sorting_key <> ''
    AND match(engine, '(Replacing|Collapsing|Coalescing|Summing|Aggregating)MergeTree$')
) AS parts
ORDER BY name, place
