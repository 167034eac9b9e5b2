"""Add the table of holds."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Moment, Words, name, number

revision = "0016"
down_revision = "0015"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the table."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created it.
    if "auditor_holds" not in sa.inspect(op.get_bind()).get_table_names():
        op.create_table(
            "auditor_holds",
            *(sa.Column(column, name(), primary_key=True) for column in ("pipeline", "target", "table_name")),
            sa.Column("holder", name(64), nullable=False),
            sa.Column("state", name(16), nullable=False),
            sa.Column("position", number()),
            sa.Column("reason", Words(), nullable=False),
            sa.Column("until", Moment(), nullable=False),
            **MYSQL,
        )
