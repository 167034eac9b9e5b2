"""Add the tables of patches: what was applied, and the journal of its rows."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, blob, name, number

revision = "0008"
down_revision = "0007"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created one of them.
    existing = set(sa.inspect(op.get_bind()).get_table_names())
    if "auditor_patches" not in existing:
        op.create_table(
            "auditor_patches",
            sa.Column("patch", name(64), primary_key=True),
            sa.Column("run", name(64), nullable=False),
            sa.Column("audit", name(), nullable=False),
            sa.Column("undoes", name(64)),
            sa.Column("target", name(64), nullable=False),
            sa.Column("requested_by", Words(), nullable=False),
            sa.Column("at", Moment(), nullable=False),
            sa.Column("state", name(16), nullable=False),
            sa.Column("undoable", sa.Boolean(), nullable=False),
            sa.Column("detail", Json(), nullable=False),
            sa.Column("host", name(), nullable=False),
            sa.Column("pid", number(), nullable=False),
            sa.Column("process", name(64), nullable=False),
            sa.Column("heartbeat", Moment(), nullable=False),
            sa.Index("auditor_patches_run_at", "run", "at"),
            **MYSQL,
        )
    if "auditor_patch_batches" not in existing:
        owner = sa.ForeignKey("auditor_patches.patch", name="auditor_patch_batches_patch_fk", ondelete="CASCADE")
        op.create_table(
            "auditor_patch_batches",
            sa.Column("patch", name(64), owner, primary_key=True),
            sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
            sa.Column("state", name(16), nullable=False),
            sa.Column("at", Moment(), nullable=False),
            sa.Column("body", blob()),
            **MYSQL,
        )
