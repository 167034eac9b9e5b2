"""Read the binary log of MySQL and MariaDB as a replica does: places in it, dumps, transactions, table maps, rows.

Nothing here knows Spark. `dump` opens a stream of events on the server, `transactions` finds where transactions end, `ranges` scans event
headers and cuts the log there, and `decode` makes Arrow batches of a range, with functions that `type_decoders` generates for each table.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html
https://mariadb.com/kb/en/replication-protocol/
"""
