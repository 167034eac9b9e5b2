"""The current tables of bootstraps; the others are in ``_schema``."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Words, name, number

bootstraps = Table(
    "auditor_bootstraps",
    metadata,
    Column("bootstrap", name(64), primary_key=True),
    Column("audit", name(), nullable=False),
    Column("target", name(64), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("stage", name(16), nullable=False),
    Column("detail", Json(), nullable=False),
    Column("host", name(), nullable=False),
    Column("pid", number(), nullable=False),
    Column("process", name(64), nullable=False),
    Column("heartbeat", Moment(), nullable=False),
    Index("auditor_bootstraps_target_at", "target", "at"),
    **MYSQL,
)
"""Bootstraps that were begun. ``target`` is a hash of the table that is copied anew."""

bootstrap_ranges = Table(
    "auditor_bootstrap_ranges",
    metadata,
    Column("bootstrap", name(64), ForeignKey("auditor_bootstraps.bootstrap", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer(), primary_key=True, autoincrement=False),
    Column("detail", Json(), nullable=False),
    **MYSQL,
)
"""The ranges of keys of a bootstrap that were copied, each with its rows, bytes and digest."""
