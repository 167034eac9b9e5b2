"""The current tables; `migrations` upgrades older ones.

All table names begin with ``auditor_``, so that a store can share a database with other tables.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, ForeignKeyConstraint, Index, Integer, MetaData, Table, UniqueConstraint

from auditor.store._types import Json, Moment, Real, Words, blob, name, number

HEAD = "0026"
"""The revision of the newest migration."""

VERSION_TABLE = "auditor_version"

metadata = MetaData(naming_convention={"uq": "%(table_name)s_%(column_0_N_name)s", "fk": "%(table_name)s_%(column_0_N_name)s_fk"})

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _run_column() -> Column[Any]:
    """Return the column of the run that a row belongs to; deleting the run deletes the row."""
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
    Column("cancel_asked", Boolean(), nullable=False),
    # The audit's name while the run is running: the unique constraint allows one running run of an audit.
    Column("running", name(), unique=True),
    Column("host", name(), nullable=False),
    Column("pid", number(), nullable=False),
    Column("process", name(64), nullable=False),
    Column("heartbeat", Moment(), nullable=False),
    ForeignKeyConstraint(["audit", "version"], ["auditor_audits.audit", "auditor_audits.version"]),
    # Created with the table, and so atomically on MySQL, unlike separate indexes.
    UniqueConstraint("audit", "number"),
    **MYSQL,
)
"""The runs, numbered in the order of their start, independent of clocks."""

documents = Table(
    "auditor_documents",
    metadata,
    _run_column(),
    Column("kind", name(16), primary_key=True),
    Column("body", blob(), nullable=False),
    **MYSQL,
)
"""The large values of a run, by kind: ``plan``, ``report``, and ``picture``, the packed partition map."""

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

standing = Table(
    "auditor_standing",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("verified_through", Moment()),
    Column("within_threshold_through", Moment()),
    Column("verified_by", name(64)),
    Column("told_verdict", name(16)),
    Column("told_failure", Boolean()),
    Column("told_at", Moment()),
    Column("runs", number(), nullable=False),
    Column("paused", Boolean(), nullable=False),
    # Shapes of statements whose rows were held against a count of the whole table, the latest last; null where there are none.
    Column("proved", Json()),
    **MYSQL,
)
"""What is remembered of an audit, and outlives its runs. ``verified_by`` is the hash of the settings under which it was verified;
``told_verdict`` and ``told_at`` are the last verdict sent to the channels, ``told_failure`` whether they know that runs fail since."""

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

left_out = Table(
    "auditor_left_out",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("settings", name(64), nullable=False),
    Column("body", blob(), nullable=False),
    **MYSQL,
)
"""The rows of each audit that its last runs did not compare, packed; ``settings`` is the hash of the settings of these runs.

The row without a name holds the store's salt.
"""

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
"""Recorded repairs. ``run`` is the run's id, not a foreign key, because a repair outlives its run."""

queue = Table(
    "auditor_queue",
    metadata,
    _run_column(),
    Column("requested", Moment(), nullable=False),
    # The audit's name while the run is pending: the unique constraint allows one pending run of an audit.
    Column("waiting", name(), unique=True),
    Column("lost", Integer(), nullable=False),
    **MYSQL,
)
"""The runs that were requested through the queue. ``lost`` counts how often the process of the run died."""

keys = Table(
    "auditor_keys",
    metadata,
    Column("hash", name(64), primary_key=True),
    Column("run", number(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), nullable=False),
    Column("asked", name(64), nullable=False),
    **MYSQL,
)
"""Hashes of the idempotency keys of requests; ``asked`` is the hash of the request."""

slots = Table(
    "auditor_slots",
    metadata,
    Column("connection", name(), primary_key=True),
    Column("slot", Integer(), primary_key=True, autoincrement=False),
    Column("holder", name(64), nullable=False),
    Column("until", Moment(), nullable=False),
    **MYSQL,
)
"""Statement slots of a connection's database: a row for each slot in use, and one with a negative number for each waiting holder."""

defined = Table(
    "auditor_defined",
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
    Column("living", name(), unique=True),
    Column("hash", name(64), nullable=False, unique=True),
    Column("scope", name(16), nullable=False),
    Column("made", Moment(), nullable=False),
    Column("expires", Moment()),
    Column("revoked", Moment()),
    Column("last_used", Moment()),
    # The number of the token that made it, by which it ends; null for those made on the command line.
    Column("maker", number()),
    Index("auditor_tokens_maker", "maker"),
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
"""The log of requests by people and programs."""

channel_messages = Table(
    "auditor_told",
    metadata,
    Column("channel", name(), primary_key=True),
    Column("sent", Json(), nullable=False),
    Column("held", number(), nullable=False),
    Column("titles", Json(), nullable=False),
    **MYSQL,
)
"""For each channel the times of the last hour's messages (``sent``, seconds since 1970), and the number and titles of those held back."""

pipelines = Table(
    "auditor_pipelines",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("paused", Boolean(), nullable=False),
    Column("staged_through", number()),
    Column("staged_time", Moment()),
    Column("staged_at", Moment()),
    Column("source_offset", Json()),
    Column("reason", Words(), nullable=False),
    Column("event_count", number()),
    Column("progress", Json()),
    Column("paused_by", Words()),
    Column("paused_at", Moment()),
    Column("incarnation", name(64)),
    **MYSQL,
)
"""What a pipeline staged: up to which position, when its source committed that, when it was staged, the offset of the stream's last batch,
as its source writes it, and how many events; why it is stopped; what its process last saw of source and staging; who paused it when; and
its incarnation, which its staging and its targets carry too."""

parts = Table(
    "auditor_parts",
    metadata,
    Column("number", number(), primary_key=True),
    Column("pipeline", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("first_position", number(), nullable=False),
    Column("last_position", number(), nullable=False),
    Column("row_count", number(), nullable=False),
    Column("byte_count", number(), nullable=False),
    Column("schema_id", name(64), nullable=False),
    Column("path", Words(), nullable=False),
    Column("last_time", Moment(), nullable=False),
    Column("staged_at", Moment(), nullable=False),
    Column("checksum", name(64)),
    UniqueConstraint("pipeline", "table_name", "first_position"),
    **MYSQL,
)
"""The manifest of a pipeline: its parts, each the events of one table and schema between two positions."""

table_schemas = Table(
    "auditor_table_schemas",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("schema_id", name(64), primary_key=True),
    Column("body", Json(), nullable=False),
    **MYSQL,
)
"""The columns of a pipeline's tables, by the id that parts state."""

staged_tables = Table(
    "auditor_staged_tables",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("staged_through", number(), nullable=False),
    Column("pruned_through", number(), nullable=False),
    **MYSQL,
)
"""For each table of a pipeline the last position of its parts, and that of those that were deleted; 0 for none."""

merges = Table(
    "auditor_merges",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("target", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("position", number(), nullable=False),
    Column("through_time", Moment()),
    Column("at", Moment(), nullable=False),
    Column("event_count", number(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("reason", Words(), nullable=False),
    **MYSQL,
)
"""What targets reported of their tables: up to which position they hold them. The position that counts stands in the target itself."""

leases = Table(
    "auditor_leases",
    metadata,
    Column("source", name(64), primary_key=True),
    Column("holder", name(64), nullable=False),
    Column("about", Words(), nullable=False),
    Column("until", Moment(), nullable=False),
    **MYSQL,
)
"""Who reads the change stream of a source, or loads a target, and until when nobody else may."""
