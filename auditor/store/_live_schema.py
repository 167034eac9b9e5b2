"""The table of the epochs of live summaries."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Words, blob, name, number

live_epochs = Table(
    "auditor_live_epochs",
    metadata,
    Column("epoch", name(16), primary_key=True),
    Column("audit", name(), nullable=False),
    Column("pipeline", name(), nullable=False),
    Column("target", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("fingerprint", name(16), nullable=False),
    Column("layout", name(64), nullable=False),
    Column("plan", Json(), nullable=False),
    Column("condition", Words(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("asked", Moment(), nullable=False),
    Column("position", number(), nullable=False),
    Column("place", Words(), nullable=False),
    Column("began", Moment()),
    Column("proved_position", number(), nullable=False),
    Column("proved_place", Words(), nullable=False),
    Column("proved", Moment()),
    Column("ended", Moment()),
    Column("reason", Words(), nullable=False),
    Column("base", blob()),
    Column("base_check", name(64), nullable=False),
    Index("auditor_live_epochs_audit", "audit", "asked"),
    Index("auditor_live_epochs_pipeline", "pipeline", "state"),
    **MYSQL,
)
"""The epochs of audits' live summaries: under which plan, since where, and the summaries of the scan with which each began."""
