"""The schema tracker: a server that has the tables of a source without their rows, as they were at each place of its log.

`replay` decides what of a statement runs there, `server` is that server, and `follower` brings it along the log: it keeps a dump of the
schema and a checkpoint in the store before and after each statement, so that after any crash both fit each other again.
"""
