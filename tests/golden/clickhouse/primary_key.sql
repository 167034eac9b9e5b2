SELECT part, COUNT(*) OVER ()
FROM (
  SELECT arrayJoin(splitByString(', ', sorting_key)) AS part
  FROM system.tables
  WHERE database = 'shop'
    AND name = 'orders'
    AND sorting_key <> ''
    AND match(engine, '(Replacing|Collapsing|Coalescing|Summing|Aggregating)MergeTree$')
) AS parts
