"""Merge staged parts into targets, each exactly once.

`loader` is the loop of one target. For each table it takes the parts behind the target's position, `staged_rows` makes changes of their
events, `target_table` makes or checks the table, `load` brings the changes into a staging table, and `table_merge` merges them in one
transaction with the new position. That position, which stands in the target, decides alone what is merged next: not what Spark or the
store remember.
"""
