"""Add the tables of schema trackers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, name, number

revision = "0018"
down_revision = "0017"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    existing = set(sa.inspect(op.get_bind()).get_table_names())
    if "auditor_trackers" not in existing:
        op.create_table(
            "auditor_trackers",
            sa.Column("pipeline", name(), primary_key=True),
            sa.Column("token", name(64), nullable=False),
            sa.Column("checkpoint", Json()),
            sa.Column("pending", Json()),
            sa.Column("at", Moment(), nullable=False),
            **MYSQL,
        )
    if "auditor_tracker_dumps" not in existing:
        op.create_table("auditor_tracker_dumps", *_of_tables(), sa.Column("statement", Json(), nullable=False), **MYSQL)
    if "auditor_tracker_columns" not in existing:
        position = sa.Column("position", number(), primary_key=True, autoincrement=False)
        op.create_table("auditor_tracker_columns", *_of_tables(position), sa.Column("body", Json(), nullable=False), **MYSQL)


def _of_tables(*key: sa.Column[Any]) -> list[sa.Column[Any]]:
    digest = sa.Column("digest", name(64), primary_key=True)
    names: list[sa.Column[Any]] = [sa.Column(one, Words(), nullable=False) for one in ("database_name", "table_name")]
    return [sa.Column("pipeline", name(), primary_key=True), digest, *key, *names]
