"""Add the tables of what happens to a pipeline's tables beside their rows."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, name, number

revision = "0013"
down_revision = "0012"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
PLACE = ("pipeline", "table_name", "position")


def upgrade() -> None:
    """Create the tables and their indexes."""
    _table(
        "auditor_table_notes",
        sa.Column("number", number(), primary_key=True),
        *(sa.Column(column, name(), nullable=False) for column in ("pipeline", "table_name")),
        *(sa.Column(column, number(), nullable=False) for column in ("position", "last_position")),
        sa.Column("kind", name(16), nullable=False),
        sa.Column("target", name(), nullable=False),
        sa.Column("event_count", number(), nullable=False),
        *(sa.Column(column, Moment(), nullable=False) for column in ("time", "at")),
        sa.Column("body", Json(), nullable=False),
        sa.Column("skipped_at", Moment()),
        *(sa.Column(column, Words()) for column in ("skipped_by", "skip_reason")),
    )
    _table(
        "auditor_schema_history",
        *(sa.Column(column, name(), primary_key=True) for column in ("pipeline", "table_name")),
        sa.Column("position", number(), primary_key=True, autoincrement=False),
        sa.Column("schema_id", name(64), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        sa.Column("catalogue", Json()),
    )
    _table(
        "auditor_migrations",
        sa.Column("number", number(), primary_key=True),
        *(sa.Column(column, name(), nullable=False) for column in ("pipeline", "target", "table_name")),
        sa.Column("position", number(), nullable=False),
        *(sa.Column(column, name(64), nullable=False) for column in ("from_schema", "to_schema")),
        sa.Column("state", name(16), nullable=False),
        sa.Column("body", Json(), nullable=False),
        sa.Column("reason", Words(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        sa.Column("ended", Moment()),
    )
    for table in ("auditor_table_notes", "auditor_migrations"):
        if f"{table}_place" not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
            op.create_index(f"{table}_place", table, list(PLACE))


def _table(called: str, *columns: sa.Column[Any]) -> None:
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created one of them.
    if called not in sa.inspect(op.get_bind()).get_table_names():
        op.create_table(called, *columns, **MYSQL)
