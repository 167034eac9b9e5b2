-- One row: whether the server takes no writes, whether this session writes into its binary log, the engine for refresh tables.
SELECT
  @@GLOBAL.read_only,
  @@SESSION.sql_log_bin,
  (SELECT ENGINE FROM information_schema.ENGINES WHERE ENGINE = 'BLACKHOLE' AND SUPPORT IN ('YES', 'DEFAULT'))
