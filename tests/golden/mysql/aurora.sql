SHOW GLOBAL VARIABLES LIKE 'aurora_server_id'
