-- One row: the name of the status variable, and the number of threads that are not sleeping, including this session's own.
SHOW GLOBAL STATUS LIKE 'Threads_running'
