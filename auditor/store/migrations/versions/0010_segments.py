"""Add the tables of segments: their manifest, and how far a pipeline's stream was cut."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Moment, Words, name, number

revision = "0010"
down_revision = "0009"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables."""
    _table(
        "auditor_segments",
        sa.Column("pipeline", name(), primary_key=True),
        sa.Column("table_name", name(), primary_key=True),
        sa.Column("last_position", number(), primary_key=True, autoincrement=False),
        sa.Column("last_row", number(), primary_key=True, autoincrement=False),
        *(sa.Column(column, number(), nullable=False) for column in ("first_position", "first_row", "row_count", "byte_count")),
        *(sa.Column(column, name(64), nullable=False) for column in ("schema_id", "sha256")),
        sa.Column("encoding", sa.Integer(), nullable=False),
        sa.Column("path", Words(), nullable=False),
        *(sa.Column(column, Moment(), nullable=False) for column in ("began", "ended")),
        sa.Column("gtid", Words()),
    )
    _table(
        "auditor_segmented_tables",
        *(sa.Column(column, name(), primary_key=True) for column in ("pipeline", "table_name")),
        sa.Column("free_through", number(), nullable=False),
    )
    _table(
        "auditor_segment_progress",
        sa.Column("pipeline", name(), primary_key=True),
        *(sa.Column(column, number(), nullable=False) for column in ("through", "clock")),
    )


def _table(called: str, *columns: sa.Column[Any]) -> None:
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created one of them.
    if called not in sa.inspect(op.get_bind()).get_table_names():
        op.create_table(called, *columns, **MYSQL)
