"""The current tables of pipelines; the others are in ``_schema``, ``_segment_schema`` and ``_repair_schema``."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, Table, UniqueConstraint

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Real, Words, blob, name, number

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

lags = Table(
    "auditor_pipeline_lags",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("at", Moment(), primary_key=True),
    Column("span", Integer(), nullable=False),
    Column("seconds", Real()),
    Column("byte_count", number()),
    Column("rate", Real()),
    Column("tables", blob(), nullable=False),
    **MYSQL,
)
"""How far a pipeline lagged behind from a moment on, for a span of seconds: itself, and in ``tables`` its targets and their tables."""

problems = Table(
    "auditor_pipeline_problems",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("kind", Integer(), primary_key=True, autoincrement=False),
    Column("target", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("since", Moment(), nullable=False),
    Column("reason", Words(), nullable=False),
    Column("notified", Boolean(), nullable=False),
    **MYSQL,
)
"""The problems that pipelines have, since when, and whether the channels were notified; '' where a problem is of no target or table.

A kind is its number in `problems.KINDS`: with one more text InnoDB's key would be too long."""

table_notes = Table(
    "auditor_table_notes",
    metadata,
    Column("number", number(), primary_key=True),
    Column("pipeline", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("position", number(), nullable=False),
    Column("last_position", number(), nullable=False),
    Column("first_row", number(), nullable=False),
    Column("kind", name(16), nullable=False),
    Column("target", name(), nullable=False),
    Column("event_count", number(), nullable=False),
    Column("time", Moment(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("body", Json(), nullable=False),
    Column("skipped_at", Moment()),
    Column("skipped_by", Words()),
    Column("skip_reason", Words()),
    Index("auditor_table_notes_place", "pipeline", "table_name", "position"),
    **MYSQL,
)
"""Events of a table that stop it, with who skipped them, and statements that changed the table; '' as target stands for all targets."""

schema_history = Table(
    "auditor_schema_history",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("position", number(), primary_key=True, autoincrement=False),
    Column("schema_id", name(64), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("catalogue", Json()),
    **MYSQL,
)
"""From which position on a table had which schema, and what the source's catalogue said of its columns when it was first seen."""

migrations = Table(
    "auditor_migrations",
    metadata,
    Column("number", number(), primary_key=True),
    Column("pipeline", name(), nullable=False),
    Column("target", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("position", number(), nullable=False),
    Column("from_schema", name(64), nullable=False),
    Column("to_schema", name(64), nullable=False),
    Column("state", name(16), nullable=False),
    Column("body", Json(), nullable=False),
    Column("reason", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("ended", Moment()),
    Index("auditor_migrations_place", "pipeline", "table_name", "position"),
    **MYSQL,
)
"""How the targets' tables were brought from one schema to the next, or why they were not."""

refreshes = Table(
    "auditor_refreshes",
    metadata,
    Column("refresh", name(64), primary_key=True),
    Column("pipeline", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("scope", Json(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("ended", Moment()),
    Column("progress", Json(), nullable=False),
    Column("reason", Words(), nullable=False),
    Index("auditor_refreshes_pipeline_at", "pipeline", "at"),
    **MYSQL,
)
"""Refreshes that were asked for: of which table and keys, how far their rows were written into the source's log, and what stops them."""

holds = Table(
    "auditor_holds",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("target", name(), primary_key=True),
    Column("table_name", name(), primary_key=True),
    Column("holder", name(64), nullable=False),
    Column("state", name(16), nullable=False),
    Column("position", number()),
    Column("reason", Words(), nullable=False),
    Column("until", Moment(), nullable=False),
    **MYSQL,
)
"""Which tables of which targets audits hold still, up to which position these are wanted, and when a hold ends by itself."""

live_epochs = Table(
    "auditor_live_epochs",
    metadata,
    Column("epoch", name(16), primary_key=True),
    Column("audit", name(), nullable=False),
    Column("pipeline", name(), nullable=False),
    Column("target", name(), nullable=False),
    Column("table_name", name(), nullable=False),
    Column("fingerprint", name(16), nullable=False),
    Column("layout", name(64), nullable=False),
    Column("plan", Json(), nullable=False),
    Column("condition", Words(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("requested_at", Moment(), nullable=False),
    Column("position", number(), nullable=False),
    Column("log_place", Words(), nullable=False),
    Column("begun_at", Moment()),
    Column("proved_position", number(), nullable=False),
    Column("proved_log_place", Words(), nullable=False),
    Column("proved_at", Moment()),
    Column("ended", Moment()),
    Column("reason", Words(), nullable=False),
    Column("base", blob()),
    Column("base_check", name(64), nullable=False),
    Index("auditor_live_epochs_audit", "audit", "requested_at"),
    Index("auditor_live_epochs_pipeline", "pipeline", "state"),
    **MYSQL,
)
"""The epochs of audits' live summaries: under which plan, since where, and the summaries of the scan with which each began."""

trackers = Table(
    "auditor_trackers",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("token", name(64), nullable=False),
    Column("checkpoint", Json()),
    Column("pending_statement", Json()),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)
"""The text by which a tracker's server is known as a pipeline's own, the place of the log up to which it was brought, and the statement
that is being replayed."""

dumps = Table(
    "auditor_tracker_dumps",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("digest", name(64), primary_key=True),
    Column("database_name", Words(), nullable=False),
    Column("table_name", Words(), nullable=False),
    Column("statement", Json(), nullable=False),
    **MYSQL,
)
"""The statements that make a tracker's schema at its checkpoint; '' as table stands for the database itself. The digest is of the names,
which are compared as their bytes."""

columns = Table(
    "auditor_tracker_columns",
    metadata,
    Column("pipeline", name(), primary_key=True),
    Column("digest", name(64), primary_key=True),
    Column("position", number(), primary_key=True, autoincrement=False),
    Column("database_name", Words(), nullable=False),
    Column("table_name", Words(), nullable=False),
    Column("body", Json(), nullable=False),
    **MYSQL,
)
"""The columns that a table has behind a position of the log, or why they are not known."""
