"""The data pipeline on Spark: from the binary log of MySQL or MariaDB to merged tables in the targets.

How an event travels:

1. `source` reads the binary log as a streaming source of Spark; `binlog` decodes it. Each task decodes its own stretch of the log.
2. `staging` applies `columns` in the same task, so that excluded columns and the clear text of masked ones reach no disk, writes what one
   batch brought as parts, each the events of one table, into one file for each task, and lists them in the store.
3. `merge` brings the parts that are missing in a target into it, in one transaction with the position that the target is at then.

`run` does this until it is stopped; `check` says before what is missing.

`events` defines what they hand to each other. No row passes the driver: executors decode, stage and load, and a target that one session
alone may load has a loader in a process of its own.
"""
