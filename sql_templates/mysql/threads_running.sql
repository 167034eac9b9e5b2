-- One row: the name of the measure, and how many threads are not asleep, the one that asks among them.
SHOW GLOBAL STATUS LIKE 'Threads_running'
