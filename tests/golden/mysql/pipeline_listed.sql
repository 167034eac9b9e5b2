SELECT listed.*, COUNT(*) OVER ()
FROM (
SELECT 0 AS number
UNION ALL
SELECT 1 AS number
) AS listed
