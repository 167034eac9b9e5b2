"""The tables of segments."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Moment, Words, name, number

segments = Table(
    "auditor_segments",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("last_position", number(), primary_key=True, autoincrement=False),
    Column("last_row", number(), primary_key=True, autoincrement=False),
    Column("first_position", number(), nullable=False),
    Column("first_row", number(), nullable=False),
    Column("row_count", number(), nullable=False),
    Column("byte_count", number(), nullable=False),
    Column("schema_id", name(64), nullable=False),
    Column("sha256", name(64), nullable=False),
    Column("encoding", Integer(), nullable=False),
    Column("path", Words(), nullable=False),
    Column("began", Moment(), nullable=False),
    Column("ended", Moment(), nullable=False),
    Column("gtid", Words()),
    **MYSQL,
)
"""The segments of a pipeline's tables, each with its digest and its file."""

segmented_tables = Table(
    "auditor_segmented_tables",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("free_through", number(), nullable=False),
    **MYSQL,
)
"""Up to which position a table's parts are no longer needed for segments; the open segment begins behind it."""

segment_progress = Table(
    "auditor_segment_progress",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("through", number(), nullable=False),
    Column("clock", number(), nullable=False),
    **MYSQL,
)
"""Up to which position a pipeline's events were cut, and the latest commit until there, in microseconds since 1970."""
