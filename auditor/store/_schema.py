"""The current tables; `migrations` upgrades older ones.

All table names begin with ``auditor_``, so that a store can share a database with other tables.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, ForeignKeyConstraint, Index, Integer, MetaData, Table, UniqueConstraint

from auditor.store._types import Json, Moment, Real, Words, blob, name, number

HEAD = "0001"
"""The revision of the newest migration."""

VERSION_TABLE = "auditor_version"

metadata = MetaData(naming_convention={"uq": "%(table_name)s_%(column_0_N_name)s", "fk": "%(table_name)s_%(column_0_N_name)s_fk"})

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _run_column() -> Column[Any]:
    """Return the column of the run that a row belongs to; deleting the run deletes the row."""
    return Column("run", number(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), primary_key=True)


audit_versions = Table(
    "auditor_audit_versions",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("version", name(64), primary_key=True),
    Column("definition", Json(), nullable=False),
    Column("since", Moment(), nullable=False),
    **MYSQL,
)
"""The versions of each audit's definition. A version is the hash of its content."""

schemas = Table(
    "auditor_schemas",
    metadata,
    Column("version", name(64), primary_key=True),
    Column("columns", Json(), nullable=False),
    **MYSQL,
)
"""Both sides' columns, stored once for all runs with equal ones. A version is the hash of the content."""

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
    # Null until the run ends.
    Column("within_threshold", Boolean()),
    Column("within_threshold_through", Moment()),
    Column("resumable", Boolean(), nullable=False),
    Column("cancel_requested", Boolean(), nullable=False),
    # The audit's name while the run is running: the unique constraint allows one running run of an audit.
    Column("running_audit", name(), unique=True),
    ForeignKeyConstraint(["audit", "version"], ["auditor_audit_versions.audit", "auditor_audit_versions.version"]),
    # Created with the table, and so atomically on MySQL, unlike separate indexes.
    UniqueConstraint("audit", "number"),
    **MYSQL,
)
"""The runs, numbered in the order of their start, independent of clocks."""

run_documents = Table(
    "auditor_run_documents",
    metadata,
    _run_column(),
    Column("kind", name(16), primary_key=True),
    Column("body", blob(), nullable=False),
    **MYSQL,
)
"""The large values of a run, by kind: ``plan``, ``report``, and ``partition_map``, which is packed."""

differences = Table(
    "auditor_differences",
    metadata,
    _run_column(),
    Column("number", number(), primary_key=True, autoincrement=False),
    Column("kind", name(16), nullable=False),
    Column("state", name(16), nullable=False),
    Column("detail", Json(), nullable=False),
    **MYSQL,
)

chunks = Table(
    "auditor_chunks",
    metadata,
    _run_column(),
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
"""The finished chunks of a run. Bounds are text, '' for none: keys can exceed 64 bits, and a primary key cannot hold NULL."""

audit_states = Table(
    "auditor_audit_states",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("verified_through", Moment()),
    Column("within_threshold_through", Moment()),
    Column("verified_settings", name(64)),
    Column("notified_verdict", name(16)),
    Column("notified_failure", Boolean()),
    Column("notified_at", Moment()),
    Column("run_count", number(), nullable=False),
    Column("paused", Boolean(), nullable=False),
    # Shapes of statements whose rows were held against a count of the whole table, the latest last; null where there are none.
    Column("counted_shapes", Json()),
    **MYSQL,
)
"""What is remembered of an audit, and outlives its runs. ``verified_settings`` is the hash of the settings under which it was verified;
``notified_verdict`` and ``notified_at`` are the last verdict sent to the channels, ``notified_failure`` whether they know that runs fail
since; ``run_count`` is how many runs with the audit's own settings ended."""

rolling_parts = Table(
    "auditor_rolling_parts",
    metadata,
    Column("audit", name(), ForeignKey("auditor_audit_states.audit"), primary_key=True),
    Column("number", number(), primary_key=True, autoincrement=False),
    Column("layout", name(), nullable=False),
    Column("first", name(), nullable=False),
    Column("end_before", name(), nullable=False),
    Column("run", number(), ForeignKey("auditor_runs.number"), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("watermark", Moment()),
    **MYSQL,
)

schedule_claims = Table(
    "auditor_schedule_claims",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("tick", Moment(), primary_key=True),
    Column("claimed_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)

left_out_rows = Table(
    "auditor_left_out_rows",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("settings", name(64), nullable=False),
    Column("body", blob(), nullable=False),
    **MYSQL,
)
"""The rows of each audit that its last runs did not compare, packed; ``settings`` is the hash of the settings of these runs."""

salts = Table(
    "auditor_salt",
    metadata,
    Column("number", Integer(), primary_key=True, autoincrement=False),
    Column("salt", blob(), nullable=False),
    **MYSQL,
)
"""The store's salt, in one row, whose number is 1."""

evidence = Table(
    "auditor_evidence",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("number", number(), primary_key=True, autoincrement=False),
    # No foreign key, because a link outlives its run.
    Column("run", name(64), nullable=False),
    Column("run_number", number(), nullable=False),
    Column("link", blob(), nullable=False),
    Column("signature", name(128), nullable=False),
    # Null once the run was deleted, resumed or scrubbed.
    Column("payload", blob()),
    # Null as soon as the payload is, or when it was erased.
    Column("row_key", blob()),
    Index("auditor_evidence_run", "run"),
    **MYSQL,
)
"""The links of each audit's chain, as they were signed; ``payload`` is what a run found, ``row_key`` makes its keyed digests."""

queue = Table(
    "auditor_queue",
    metadata,
    _run_column(),
    Column("requested_at", Moment(), nullable=False),
    # The audit's name while the run is pending: the unique constraint allows one pending run of an audit.
    Column("pending_audit", name(), unique=True),
    Column("lost_processes", Integer(), nullable=False),
    **MYSQL,
)
"""The runs that were requested through the queue. ``lost_processes`` counts how often the process of the run died."""

idempotency_keys = Table(
    "auditor_idempotency_keys",
    metadata,
    Column("hash", name(64), primary_key=True),
    Column("run", number(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), nullable=False),
    Column("request_hash", name(64), nullable=False),
    **MYSQL,
)
"""Hashes of the idempotency keys of requests; ``request_hash`` is that of the request."""

definitions = Table(
    "auditor_definitions",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("definition", Json(), nullable=False),
    Column("defined_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)
"""Audits that were defined through the API, not in a configuration."""

tokens = Table(
    "auditor_tokens",
    metadata,
    Column("number", number(), primary_key=True),
    Column("name", name(), nullable=False),
    # The name while no other token may have it: the unique constraint allows one valid token of a name.
    Column("valid_name", name(), unique=True),
    Column("hash", name(64), nullable=False, unique=True),
    Column("scope", name(16), nullable=False),
    Column("created_at", Moment(), nullable=False),
    Column("expires", Moment()),
    Column("revoked", Moment()),
    Column("last_used", Moment()),
    # The number of the token that created it, by which it ends; null for those made on the command line.
    Column("created_by", number()),
    Index("auditor_tokens_created_by", "created_by"),
    **MYSQL,
)

events = Table(
    "auditor_events",
    metadata,
    Column("number", number(), primary_key=True),
    Column("at", Moment(), nullable=False),
    Column("actor", Words(), nullable=False),
    Column("action", name(64), nullable=False),
    Column("subject", Words(), nullable=False),
    Column("detail", Json(), nullable=False),
    **MYSQL,
)
"""The log of requests by people and programs."""

channel_messages = Table(
    "auditor_channel_messages",
    metadata,
    Column("channel", name(), primary_key=True),
    Column("sent", Json(), nullable=False),
    Column("held_back", number(), nullable=False),
    Column("titles", Json(), nullable=False),
    **MYSQL,
)
"""For each channel the times of the last hour's messages (``sent``, seconds since 1970), and the number and titles of those held back."""

leases = Table(
    "auditor_leases",
    metadata,
    Column("kind", name(16), primary_key=True),
    Column("name", name(), primary_key=True),
    Column("slot", Integer(), primary_key=True, autoincrement=False),
    Column("holder", name(64), nullable=False),
    Column("host", name(), nullable=False),
    Column("pid", number(), nullable=False),
    Column("process", name(64), nullable=False),
    Column("heartbeat", Moment(), nullable=False),
    Column("until", Moment(), nullable=False),
    **MYSQL,
)
"""Who owns what until when (`auditor.store.leases`). ``slot`` is 0 but for statement slots, of which a database has several: those in
use from 0 on, and a negative number for each waiting holder."""
