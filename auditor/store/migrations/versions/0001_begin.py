"""Create the tables of the first version."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Real, Words, blob, name, number

revision = "0001"
down_revision = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables."""
    _run_tables()
    _found_tables()
    _audit_tables()


def _run_tables() -> None:
    _table(
        "auditor_audits",
        sa.Column("audit", name(), primary_key=True),
        sa.Column("version", name(64), primary_key=True),
        sa.Column("definition", Json(), nullable=False),
        sa.Column("since", Moment(), nullable=False),
    )
    _table(
        "auditor_schemas",
        sa.Column("version", name(64), primary_key=True),
        sa.Column("columns", Json(), nullable=False),
    )
    _table(
        "auditor_runs",
        sa.Column("number", number(), primary_key=True),
        *(sa.Column(column, name(64), nullable=False) for column in ("run", "version", "process")),
        *(sa.Column(column, name(), nullable=False) for column in ("audit", "host")),
        *(sa.Column(column, name(16), nullable=False) for column in ("state", "verdict")),
        *(sa.Column(column, Words(), nullable=False) for column in ("reason", "requested_by")),
        *(sa.Column(column, Json(), nullable=False) for column in ("overrides", "reasons", "progress")),
        *(sa.Column(column, Moment(), nullable=False) for column in ("started", "heartbeat")),
        *(sa.Column(column, sa.Boolean(), nullable=False) for column in ("resumable", "cancel_asked")),
        *(sa.Column(column, Moment()) for column in ("ended", "verified_through")),
        *(sa.Column(column, Real()) for column in ("seconds", "score", "lower", "upper", "published", "coverage")),
        *(sa.Column(column, number()) for column in ("source_rows", "target_rows", "partitions", "unequal")),
        *(sa.Column(column, number()) for column in ("missing", "extra", "changed", "unsettled")),
        sa.Column("schema_version", name(64)),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("method", name(16)),
        sa.Column("running", name()),
        sa.Column("pid", number(), nullable=False),
        sa.UniqueConstraint("run", name="auditor_runs_run"),
        sa.UniqueConstraint("running", name="auditor_runs_running"),
        sa.UniqueConstraint("audit", "number", name="auditor_runs_audit_number"),
        sa.ForeignKeyConstraint(
            ["audit", "version"], ["auditor_audits.audit", "auditor_audits.version"], name="auditor_runs_audit_version_fk"
        ),
        sa.ForeignKeyConstraint(["schema_version"], ["auditor_schemas.version"], name="auditor_runs_schema_version_fk"),
    )


def _found_tables() -> None:
    _table(
        "auditor_documents",
        *_of_run("auditor_documents"),
        sa.Column("kind", name(16), primary_key=True),
        sa.Column("body", blob(), nullable=False),
    )
    _table(
        "auditor_differences",
        *_of_run("auditor_differences"),
        sa.Column("number", number(), primary_key=True, autoincrement=False),
        *(sa.Column(column, name(16), nullable=False) for column in ("kind", "state")),
        sa.Column("detail", Json(), nullable=False),
    )
    _table(
        "auditor_chunks",
        *_of_run("auditor_chunks"),
        sa.Column("side", name(16), primary_key=True),
        *(sa.Column(column, name(), primary_key=True) for column in ("first", "end_before")),
        sa.Column("null_key", sa.Boolean(), primary_key=True),
        sa.Column("row_count", number(), nullable=False),
        sa.Column("seconds", Real(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        sa.Column("payload", blob(), nullable=False),
    )


def _audit_tables() -> None:
    _table(
        "auditor_standing",
        sa.Column("audit", name(), primary_key=True),
        *(sa.Column(column, Moment()) for column in ("verified_through", "told_at")),
        sa.Column("told_verdict", name(16)),
        sa.Column("runs", number(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
    )
    _table(
        "auditor_stretches",
        sa.Column("audit", name(), primary_key=True),
        sa.Column("number", number(), primary_key=True, autoincrement=False),
        *(sa.Column(column, name(), nullable=False) for column in ("layout", "first", "end_before")),
        sa.Column("run", number(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        sa.Column("watermark", Moment()),
        sa.ForeignKeyConstraint(["audit"], ["auditor_standing.audit"], name="auditor_stretches_audit_fk"),
        sa.ForeignKeyConstraint(["run"], ["auditor_runs.number"], name="auditor_stretches_run_fk"),
    )
    _table(
        "auditor_claims",
        sa.Column("audit", name(), primary_key=True),
        sa.Column("tick", Moment(), primary_key=True),
        sa.Column("claimed_by", Words(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
    )
    _table(
        "auditor_repairs",
        sa.Column("id", name(64), primary_key=True),
        sa.Column("run", name(64), nullable=False),
        sa.Column("audit", name(), nullable=False),
        sa.Column("requested_by", Words(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        *(sa.Column(column, name(16), nullable=False) for column in ("kind", "state")),
        sa.Column("detail", Json(), nullable=False),
    )


def _of_run(table: str) -> tuple[Any, ...]:
    reference = sa.ForeignKeyConstraint(["run"], ["auditor_runs.number"], name=f"{table}_run_fk", ondelete="CASCADE")
    return sa.Column("run", number(), primary_key=True), reference


def _table(table: str, *parts: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(table):
        op.create_table(table, *parts, **MYSQL)
