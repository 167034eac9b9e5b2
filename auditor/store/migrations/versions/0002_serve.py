"""Create the tables of the service: queue, idempotency keys, definitions, tokens, events, statement slots and notifications."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, name, number

revision = "0002"
down_revision = "0001"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables."""
    _queue_tables()
    _access_tables()
    _table(
        "auditor_slots",
        sa.Column("connection", name(), primary_key=True),
        sa.Column("slot", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("holder", name(64), nullable=False),
        sa.Column("until", Moment(), nullable=False),
    )
    _table(
        "auditor_told",
        sa.Column("channel", name(), primary_key=True),
        sa.Column("sent", Json(), nullable=False),
        sa.Column("held", number(), nullable=False),
        sa.Column("titles", Json(), nullable=False),
    )


def _queue_tables() -> None:
    _table(
        "auditor_queue",
        sa.Column("run", number(), primary_key=True),
        sa.Column("requested", Moment(), nullable=False),
        sa.Column("waiting", name()),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.UniqueConstraint("waiting", name="auditor_queue_waiting"),
        sa.ForeignKeyConstraint(["run"], ["auditor_runs.number"], name="auditor_queue_run_fk", ondelete="CASCADE"),
    )
    _table(
        "auditor_keys",
        sa.Column("hash", name(64), primary_key=True),
        sa.Column("run", number(), nullable=False),
        sa.Column("asked", name(64), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["auditor_runs.number"], name="auditor_keys_run_fk", ondelete="CASCADE"),
    )
    _table(
        "auditor_defined",
        sa.Column("audit", name(), primary_key=True),
        sa.Column("definition", Json(), nullable=False),
        sa.Column("defined_by", Words(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
    )


def _access_tables() -> None:
    _table(
        "auditor_tokens",
        sa.Column("number", number(), primary_key=True),
        sa.Column("name", name(), nullable=False),
        sa.Column("living", name()),
        sa.Column("hash", name(64), nullable=False),
        sa.Column("scope", name(16), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        *(sa.Column(column, Moment()) for column in ("expires", "revoked", "last_used")),
        sa.UniqueConstraint("living", name="auditor_tokens_living"),
        sa.UniqueConstraint("hash", name="auditor_tokens_hash"),
    )
    _table(
        "auditor_events",
        sa.Column("number", number(), primary_key=True),
        sa.Column("at", Moment(), nullable=False),
        *(sa.Column(column, Words(), nullable=False) for column in ("who", "subject")),
        sa.Column("what", name(64), nullable=False),
        sa.Column("detail", Json(), nullable=False),
    )


def _table(table: str, *parts: Any) -> None:
    # MySQL creates tables outside of a transaction, so an interrupted migration may have created some.
    if not sa.inspect(op.get_bind()).has_table(table):
        op.create_table(table, *parts, **MYSQL)
