"""Add the table of the epochs of live summaries."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, blob, name, number

revision = "0019"
down_revision = "0018"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the table."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    inspector = sa.inspect(op.get_bind())
    if "auditor_live_epochs" not in inspector.get_table_names():
        op.create_table("auditor_live_epochs", *_columns(), **MYSQL)
    indexes = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("auditor_live_epochs")}
    for named, columns in (("auditor_live_epochs_audit", ["audit", "asked"]), ("auditor_live_epochs_pipeline", ["pipeline", "state"])):
        if named not in indexes:
            op.create_index(named, "auditor_live_epochs", columns)


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("epoch", name(16), primary_key=True),
        *(sa.Column(one, name(), nullable=False) for one in ("audit", "pipeline", "target", "table_name")),
        sa.Column("fingerprint", name(16), nullable=False),
        sa.Column("layout", name(64), nullable=False),
        sa.Column("plan", Json(), nullable=False),
        sa.Column("condition", Words(), nullable=False),
        sa.Column("state", name(16), nullable=False),
        sa.Column("asked", Moment(), nullable=False),
        sa.Column("position", number(), nullable=False),
        sa.Column("place", Words(), nullable=False),
        sa.Column("began", Moment()),
        sa.Column("proved_position", number(), nullable=False),
        sa.Column("proved_place", Words(), nullable=False),
        sa.Column("proved", Moment()),
        sa.Column("ended", Moment()),
        sa.Column("reason", Words(), nullable=False),
        sa.Column("base", blob()),
        sa.Column("base_check", name(64), nullable=False),
    ]
