"""Migrations of the store's tables, run when a store is opened.

To add one: change the table beside its functions, or in ``schema.py``, set HEAD there, and write ``versions/NNNN_what.py``; a test
compares the result with the schema.
MySQL commits each DDL statement, so an interrupted migration is run again from its start: check what exists before creating it.
"""
