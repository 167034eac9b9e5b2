-- One row where a table is a view, or reads other tables: 'unknown', an empty schema and why.
SELECT 'unknown', '', CASE WHEN TABLE_TYPE LIKE '%VIEW' THEN 'view' ELSE 'storage' END
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ${schema}
  AND TABLE_NAME = ${table}
  AND (TABLE_TYPE LIKE '%VIEW' OR ENGINE IN ('FEDERATED', 'MRG_MyISAM', 'CONNECT', 'SPIDER'))
