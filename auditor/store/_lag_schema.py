"""The tables of what pipelines lagged behind, and of the problems that they have."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Moment, Real, Words, blob, name, number

lags = Table(
    "auditor_pipeline_lags",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("at", Moment(), primary_key=True),
    Column("span", Integer(), nullable=False),
    Column("seconds", Real()),
    Column("byte_count", number()),
    Column("rate", Real()),
    Column("tables", blob(), nullable=False),
    **MYSQL,
)
"""How far a pipeline lagged behind from a moment on, for a span of seconds: itself, and in ``tables`` its targets and their tables."""

problems = Table(
    "auditor_pipeline_problems",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("kind", Integer(), primary_key=True, autoincrement=False),
    Column("target", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("since", Moment(), nullable=False),
    Column("reason", Words(), nullable=False),
    Column("told", Boolean(), nullable=False),
    **MYSQL,
)
"""The problems that pipelines have, since when, and whether the channels were told; '' where a problem is of no target or table.

A kind is its number in `problems.KINDS`: with one more text InnoDB's key would be too long."""
