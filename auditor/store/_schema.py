"""The tables, as the newest version has them; `migrations` leads there from every older one.

All names begin with ``auditor_``, so that a store may live in a database with other tables.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, ForeignKeyConstraint, Index, Integer, MetaData, Table, UniqueConstraint

from auditor.store._types import Json, Moment, Real, Words, blob, name, number

HEAD = "0004"
"""The newest migration."""

VERSION_TABLE = "auditor_version"

metadata = MetaData(naming_convention={"uq": "%(table_name)s_%(column_0_N_name)s", "fk": "%(table_name)s_%(column_0_N_name)s_fk"})

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _of_run() -> Column[Any]:
    """The run that a row belongs to, and is deleted with."""
    return Column("run", number(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), primary_key=True)


audits = Table(
    "auditor_audits",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("version", name(64), primary_key=True),
    Column("definition", Json(), nullable=False),
    Column("since", Moment(), nullable=False),
    **MYSQL,
)
"""The versions of each audit's definition, known by their content's hash."""

schemas = Table(
    "auditor_schemas",
    metadata,
    Column("version", name(64), primary_key=True),
    Column("columns", Json(), nullable=False),
    **MYSQL,
)
"""Both sides' columns, once for all the runs that found them alike."""

runs = Table(
    "auditor_runs",
    metadata,
    Column("number", number(), primary_key=True),
    Column("run", name(64), nullable=False, unique=True),
    Column("audit", name(), nullable=False),
    Column("version", name(64), nullable=False),
    Column("schema_version", name(64), ForeignKey("auditor_schemas.version")),
    Column("state", name(16), nullable=False),
    Column("verdict", name(16), nullable=False),
    Column("exit_code", Integer()),
    Column("method", name(16)),
    Column("reason", Words(), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("overrides", Json(), nullable=False),
    Column("started", Moment(), nullable=False),
    Column("ended", Moment()),
    Column("seconds", Real()),
    Column("score", Real()),
    Column("lower", Real()),
    Column("upper", Real()),
    Column("published", Real()),
    Column("coverage", Real()),
    Column("source_rows", number()),
    Column("target_rows", number()),
    Column("partitions", number()),
    Column("unequal", number()),
    Column("missing", number()),
    Column("extra", number()),
    Column("changed", number()),
    Column("unsettled", number()),
    Column("reasons", Json(), nullable=False),
    Column("progress", Json(), nullable=False),
    Column("verified_through", Moment()),
    Column("resumable", Boolean(), nullable=False),
    Column("cancel_asked", Boolean(), nullable=False),
    # The audit's name while the run runs: that there is one living run of an audit is the database's promise.
    Column("running", name(), unique=True),
    Column("host", name(), nullable=False),
    Column("pid", number(), nullable=False),
    Column("process", name(64), nullable=False),
    Column("heartbeat", Moment(), nullable=False),
    ForeignKeyConstraint(["audit", "version"], ["auditor_audits.audit", "auditor_audits.version"]),
    # Indexes that are constraints come with CREATE TABLE, which MySQL does wholly or not at all.
    UniqueConstraint("audit", "number"),
    **MYSQL,
)
"""The runs, numbered in the order in which they began, whatever the clocks say."""

documents = Table(
    "auditor_documents",
    metadata,
    _of_run(),
    Column("kind", name(16), primary_key=True),
    Column("body", blob(), nullable=False),
    **MYSQL,
)
"""What is large of a run: its ``plan``, ``report``, ``picture``."""

differences = Table(
    "auditor_differences",
    metadata,
    _of_run(),
    Column("number", number(), primary_key=True, autoincrement=False),
    Column("kind", name(16), nullable=False),
    Column("state", name(16), nullable=False),
    Column("detail", Json(), nullable=False),
    **MYSQL,
)

chunks = Table(
    "auditor_chunks",
    metadata,
    _of_run(),
    Column("side", name(16), primary_key=True),
    Column("first", name(), primary_key=True),
    Column("end_before", name(), primary_key=True),
    Column("null_key", Boolean(), primary_key=True),
    Column("row_count", number(), nullable=False),
    Column("seconds", Real(), nullable=False),
    Column("attempts", Integer(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("payload", blob(), nullable=False),
    **MYSQL,
)
"""The chunks that a run has done. Keys are texts, '' for no bound: they can be beyond 64 bits, and a primary key holds no NULL."""

standing = Table(
    "auditor_standing",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("verified_through", Moment()),
    Column("verified_by", name(64)),
    Column("told_verdict", name(16)),
    Column("told_at", Moment()),
    Column("runs", number(), nullable=False),
    Column("paused", Boolean(), nullable=False),
    **MYSQL,
)
"""What is known of an audit beyond its runs; ``verified_by`` is the hash of the settings by which it was verified."""

stretches = Table(
    "auditor_stretches",
    metadata,
    Column("audit", name(), ForeignKey("auditor_standing.audit"), primary_key=True),
    Column("number", number(), primary_key=True, autoincrement=False),
    Column("layout", name(), nullable=False),
    Column("first", name(), nullable=False),
    Column("end_before", name(), nullable=False),
    Column("run", number(), ForeignKey("auditor_runs.number"), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("watermark", Moment()),
    **MYSQL,
)

claims = Table(
    "auditor_claims",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("tick", Moment(), primary_key=True),
    Column("claimed_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)

repairs = Table(
    "auditor_repairs",
    metadata,
    Column("id", name(64), primary_key=True),
    Column("run", name(64), nullable=False),
    Column("audit", name(), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("kind", name(16), nullable=False),
    Column("state", name(16), nullable=False),
    Column("detail", Json(), nullable=False),
    Index("auditor_repairs_run_at", "run", "at"),
    **MYSQL,
)
"""What was repaired; it names its run by text, since it outlives it."""

queue = Table(
    "auditor_queue",
    metadata,
    _of_run(),
    Column("requested", Moment(), nullable=False),
    # The audit's name while the run waits: that one run of an audit waits is the database's promise.
    Column("waiting", name(), unique=True),
    Column("lost", Integer(), nullable=False),
    **MYSQL,
)
"""The runs that were requested and not begun at once; ``lost`` counts how often the process of each was gone."""

keys = Table(
    "auditor_keys",
    metadata,
    Column("hash", name(64), primary_key=True),
    Column("run", number(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), nullable=False),
    Column("asked", name(64), nullable=False),
    **MYSQL,
)
"""Requests' idempotency keys, by their hashes; ``asked`` is the hash of what was asked for."""

slots = Table(
    "auditor_slots",
    metadata,
    Column("connection", name(), primary_key=True),
    Column("slot", Integer(), primary_key=True, autoincrement=False),
    Column("holder", name(64), nullable=False),
    Column("until", Moment(), nullable=False),
    **MYSQL,
)
"""Statements that run on a connection's database: one row for each of as many as there may be at once."""

defined = Table(
    "auditor_defined",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("definition", Json(), nullable=False),
    Column("defined_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)
"""Audits that stand in no configuration."""

tokens = Table(
    "auditor_tokens",
    metadata,
    Column("number", number(), primary_key=True),
    Column("name", name(), nullable=False),
    # The name while nobody else may have it.
    Column("living", name(), unique=True),
    Column("hash", name(64), nullable=False, unique=True),
    Column("scope", name(16), nullable=False),
    Column("made", Moment(), nullable=False),
    Column("expires", Moment()),
    Column("revoked", Moment()),
    Column("last_used", Moment()),
    **MYSQL,
)

events = Table(
    "auditor_events",
    metadata,
    Column("number", number(), primary_key=True),
    Column("at", Moment(), nullable=False),
    Column("who", Words(), nullable=False),
    Column("what", name(64), nullable=False),
    Column("subject", Words(), nullable=False),
    Column("detail", Json(), nullable=False),
    **MYSQL,
)
"""What people and their programs asked for."""

told = Table(
    "auditor_told",
    metadata,
    Column("channel", name(), primary_key=True),
    Column("sent", Json(), nullable=False),
    Column("held", number(), nullable=False),
    Column("titles", Json(), nullable=False),
    **MYSQL,
)
"""Of each channel: when it was sent messages in the last hour, in seconds since 1970, and what was held back since."""
