"""The current table of bootstraps within a pipeline's stream; the others are in ``_schema``."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Words, name

refreshes = Table(
    "auditor_refreshes",
    metadata,
    Column("refresh", name(64), primary_key=True),
    Column("pipeline", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("asked", Json(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("who", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("ended", Moment()),
    Column("progress", Json(), nullable=False),
    Column("reason", Words(), nullable=False),
    Index("auditor_refreshes_pipeline_at", "pipeline", "at"),
    **MYSQL,
)
"""Bootstraps that were asked for: of which table and keys, how far their rows were written into the source's log, and what stops them."""
