"""Add the tables of bootstraps: what was begun, and which ranges were copied."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, name, number

revision = "0011"
down_revision = "0010"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created one of them.
    existing = set(sa.inspect(op.get_bind()).get_table_names())
    if "auditor_bootstraps" not in existing:
        op.create_table(
            "auditor_bootstraps",
            sa.Column("bootstrap", name(64), primary_key=True),
            sa.Column("audit", name(), nullable=False),
            sa.Column("target", name(64), nullable=False),
            sa.Column("requested_by", Words(), nullable=False),
            sa.Column("at", Moment(), nullable=False),
            sa.Column("state", name(16), nullable=False),
            sa.Column("stage", name(16), nullable=False),
            sa.Column("detail", Json(), nullable=False),
            sa.Column("host", name(), nullable=False),
            sa.Column("pid", number(), nullable=False),
            sa.Column("process", name(64), nullable=False),
            sa.Column("heartbeat", Moment(), nullable=False),
            sa.Index("auditor_bootstraps_target_at", "target", "at"),
            **MYSQL,
        )
    if "auditor_bootstrap_ranges" not in existing:
        owner = sa.ForeignKey("auditor_bootstraps.bootstrap", name="auditor_bootstrap_ranges_fk", ondelete="CASCADE")
        op.create_table(
            "auditor_bootstrap_ranges",
            sa.Column("bootstrap", name(64), owner, primary_key=True),
            sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
            sa.Column("detail", Json(), nullable=False),
            **MYSQL,
        )
