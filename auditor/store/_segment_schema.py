"""The tables of segments."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Words, name, number

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
    Column("first_gtid", Words()),
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
    Column("latest_commit", number(), nullable=False),
    Column("replacements", Integer(), nullable=False, default=0),
    **MYSQL,
)
"""Up to which position a pipeline's events were cut, the latest commit until there, in microseconds since 1970, and how often segments were
replaced, by which their writer notices it."""

segment_registers = Table(
    "auditor_segment_registers",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("sides", Json(), nullable=False),
    Column("compared_by", name(16), nullable=False),
    Column("sequence", name()),
    Column("refused", Words(), nullable=False),
    **MYSQL,
)
"""The registers of segment audits: the names of their two sides, whether these are compared by position or by global id, the sequence that
the numbers of the global ids belong to, and why segments are not comparable; '' if they are. Who enters a segment locks its register."""

registered_segments = Table(
    "auditor_registered_segments",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("side", Integer(), primary_key=True, autoincrement=False),
    Column("start_at", number(), primary_key=True, autoincrement=False),
    Column("start_row", number(), primary_key=True, autoincrement=False),
    Column("overlap", Integer(), primary_key=True, autoincrement=False),
    Column("end_at", number(), nullable=False),
    Column("end_row", number(), nullable=False),
    Column("row_count", number(), nullable=False),
    Column("schema_id", name(64), nullable=False),
    Column("sha256", name(64), nullable=False),
    Column("encoding", Integer(), nullable=False),
    Column("first_position", number(), nullable=False),
    Column("last_position", number(), nullable=False),
    Column("gtid", Words()),
    Column("began", Moment(), nullable=False),
    Column("ended", Moment(), nullable=False),
    Column("registered", Moment(), nullable=False),
    Column("verdict", name(16), nullable=False),
    Column("matched_position", number()),
    Column("matched_row", number()),
    **MYSQL,
)
"""The segments of both sides of segment audits, each with the verdict on it and the place of what it was compared with."""
