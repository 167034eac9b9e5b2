"""The tables of what happens to a pipeline's tables beside their rows: notes, schemas in their order, and migrations of targets."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Words, name, number

table_notes = Table(
    "auditor_table_notes",
    metadata,
    Column("number", number(), primary_key=True),
    Column("pipeline", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("position", number(), nullable=False),
    Column("last_position", number(), nullable=False),
    Column("first_row", number(), nullable=False),
    Column("kind", name(16), nullable=False),
    Column("target", name(), nullable=False),
    Column("event_count", number(), nullable=False),
    Column("time", Moment(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("body", Json(), nullable=False),
    Column("skipped_at", Moment()),
    Column("skipped_by", Words()),
    Column("skip_reason", Words()),
    Index("auditor_table_notes_place", "pipeline", "table_name", "position"),
    **MYSQL,
)
"""Events of a table that stop it, with who skipped them, and statements that changed the table; '' as target stands for all targets."""

schema_history = Table(
    "auditor_schema_history",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("position", number(), primary_key=True, autoincrement=False),
    Column("schema_id", name(64), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("catalogue", Json()),
    **MYSQL,
)
"""From which position on a table had which schema, and what the source's catalogue said of its columns when it was first seen."""

migrations = Table(
    "auditor_migrations",
    metadata,
    Column("number", number(), primary_key=True),
    Column("pipeline", name(), nullable=False),
    Column("target", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("position", number(), nullable=False),
    Column("from_schema", name(64), nullable=False),
    Column("to_schema", name(64), nullable=False),
    Column("state", name(16), nullable=False),
    Column("body", Json(), nullable=False),
    Column("reason", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("ended", Moment()),
    Index("auditor_migrations_place", "pipeline", "table_name", "position"),
    **MYSQL,
)
"""How the targets' tables were brought from one schema to the next, or why they were not."""
