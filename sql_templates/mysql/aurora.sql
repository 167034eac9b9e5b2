-- One row on Amazon Aurora, whose readers share the writer's storage instead of replaying its log: a name, and this instance's. Else none.
SHOW GLOBAL VARIABLES LIKE 'aurora_server_id'
