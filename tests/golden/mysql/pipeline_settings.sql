SHOW GLOBAL VARIABLES
WHERE Variable_name IN (
  'log_bin', 'binlog_format', 'binlog_row_image', 'binlog_row_metadata', 'binlog_row_value_options', 'binlog_expire_logs_seconds',
  'server_id', 'binlog_storage_engine', 'sql_mode'
)
