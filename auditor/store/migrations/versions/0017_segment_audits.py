"""Add the registers of segment audits, and the global id with which a segment begins."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, name, number

revision = "0017"
down_revision = "0016"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables, and add the column."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    seen = sa.inspect(op.get_bind())
    existing = set(seen.get_table_names())
    if "auditor_segment_registers" not in existing:
        op.create_table(
            "auditor_segment_registers",
            sa.Column("audit", name(), primary_key=True),
            sa.Column("sides", Json(), nullable=False),
            sa.Column("compared_by", name(16), nullable=False),
            sa.Column("sequence", name()),
            sa.Column("refused", Words(), nullable=False),
            **MYSQL,
        )
    if "auditor_registered_segments" not in existing:
        op.create_table("auditor_registered_segments", *_columns(), **MYSQL)
    if "first_gtid" not in {column["name"] for column in seen.get_columns("auditor_segments")}:
        op.add_column("auditor_segments", sa.Column("first_gtid", Words()))


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("audit", name(), primary_key=True),
        sa.Column("table_name", name(), primary_key=True),
        sa.Column("side", sa.Integer(), primary_key=True, autoincrement=False),
        *(sa.Column(column, number(), primary_key=True, autoincrement=False) for column in ("start_at", "start_row")),
        sa.Column("doubled", sa.Integer(), primary_key=True, autoincrement=False),
        *(sa.Column(column, number(), nullable=False) for column in ("end_at", "end_row", "row_count")),
        *(sa.Column(column, name(64), nullable=False) for column in ("schema_id", "sha256")),
        sa.Column("encoding", sa.Integer(), nullable=False),
        *(sa.Column(column, number(), nullable=False) for column in ("first_position", "last_position")),
        sa.Column("gtid", Words()),
        *(sa.Column(column, Moment(), nullable=False) for column in ("began", "ended", "registered")),
        sa.Column("verdict", name(16), nullable=False),
        *(sa.Column(column, number()) for column in ("other_at", "other_row")),
    ]
