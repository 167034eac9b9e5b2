"""The tables of schema trackers: where each stands, the dump of its schema there, and the columns that tables had from which place on."""

from __future__ import annotations

from sqlalchemy import Column, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Words, name, number

trackers = Table(
    "auditor_trackers",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("token", name(64), nullable=False),
    Column("checkpoint", Json()),
    Column("pending", Json()),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)
"""The text by which a tracker's server is known as a pipeline's own, the place of the log up to which it was brought, and the statement
that is being replayed."""

dumps = Table(
    "auditor_tracker_dumps",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("digest", name(64), primary_key=True),
    Column("database_name", Words(), nullable=False),
    Column("table_name", Words(), nullable=False),
    Column("statement", Json(), nullable=False),
    **MYSQL,
)
"""The statements that make a tracker's schema at its checkpoint; '' as table stands for the database itself. The digest is of the names,
which are compared as their bytes."""

columns = Table(
    "auditor_tracker_columns",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("digest", name(64), primary_key=True),
    Column("position", number(), primary_key=True, autoincrement=False),
    Column("database_name", Words(), nullable=False),
    Column("table_name", Words(), nullable=False),
    Column("body", Json(), nullable=False),
    **MYSQL,
)
"""The columns that a table has behind a position of the log, or why they are not known."""
