SHOW GLOBAL STATUS LIKE 'Threads_running'
