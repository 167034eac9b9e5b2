"""Add the table of bootstraps within a pipeline's stream."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, name

revision = "0014"
down_revision = "0013"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the table and its index."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    seen = sa.inspect(op.get_bind())
    if "auditor_refreshes" not in set(seen.get_table_names()):
        op.create_table(
            "auditor_refreshes",
            sa.Column("refresh", name(64), primary_key=True),
            *(sa.Column(column, name(), nullable=False) for column in ("pipeline", "table_name")),
            sa.Column("asked", Json(), nullable=False),
            sa.Column("state", name(16), nullable=False),
            sa.Column("who", Words(), nullable=False),
            sa.Column("at", Moment(), nullable=False),
            sa.Column("ended", Moment()),
            sa.Column("progress", Json(), nullable=False),
            sa.Column("reason", Words(), nullable=False),
            **MYSQL,
        )
        seen = sa.inspect(op.get_bind())
    if "auditor_refreshes_pipeline_at" not in {index["name"] for index in seen.get_indexes("auditor_refreshes")}:
        op.create_index("auditor_refreshes_pipeline_at", "auditor_refreshes", ["pipeline", "at"])
