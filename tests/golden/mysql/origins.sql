WITH RECURSIVE readers (view_schema, view_name, table_schema, table_name) AS (
  SELECT VIEW_SCHEMA, VIEW_NAME, TABLE_SCHEMA, TABLE_NAME
  FROM information_schema.VIEW_TABLE_USAGE
  WHERE VIEW_SCHEMA = 'shop' AND VIEW_NAME = 'orders'
  UNION
  SELECT u.VIEW_SCHEMA, u.VIEW_NAME, u.TABLE_SCHEMA, u.TABLE_NAME
  FROM readers r
  JOIN information_schema.VIEW_TABLE_USAGE u ON u.VIEW_SCHEMA = r.table_schema AND u.VIEW_NAME = r.table_name
)
SELECT 'view', table_schema, table_name
FROM readers
UNION ALL
SELECT 'unknown', '', CASE WHEN TABLE_TYPE LIKE '%VIEW' THEN 'view' ELSE 'storage' END
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = 'shop'
  AND TABLE_NAME = 'orders'
  AND (TABLE_TYPE LIKE '%VIEW' OR ENGINE IN ('FEDERATED', 'MRG_MyISAM', 'CONNECT', 'SPIDER'))
