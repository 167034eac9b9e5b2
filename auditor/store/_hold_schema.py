"""The table of holds."""

from __future__ import annotations

from sqlalchemy import Column, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Moment, Words, name, number

holds = Table(
    "auditor_holds",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("target", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("holder", name(64), nullable=False),
    Column("state", name(16), nullable=False),
    Column("position", number()),
    Column("reason", Words(), nullable=False),
    Column("until", Moment(), nullable=False),
    **MYSQL,
)
"""Which tables of which targets audits hold still, up to which position these are wanted, and when a hold ends by itself."""
