"""Create all tables, as the first version has them."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import Boolean, Column, ForeignKey, ForeignKeyConstraint, Integer, UniqueConstraint, inspect

from auditor.store.schema import Json, Moment, Real, Words, big_integer, long_binary, short_text

revision = "0001"
down_revision = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables that are missing: MySQL commits each, so that a process that died may have left some."""
    _run_tables()
    _result_tables()
    _audit_tables()
    _queue_tables()
    _access_tables()
    _patch_tables()
    _bootstrap_tables()
    _pipeline_tables()
    _watch_tables()
    _history_tables()
    _live_tables()
    _file_tables()
    _segment_tables()
    _register_tables()


def _table(table: str, *parts: Any) -> None:
    if not inspect(op.get_bind()).has_table(table):
        op.create_table(table, *parts, **MYSQL)


def _index(index: str, table: str, *columns: str, unique: bool = False) -> None:
    if all(existing["name"] != index for existing in inspect(op.get_bind()).get_indexes(table)):
        op.create_index(index, table, list(columns), unique=unique)


def _run_column() -> Column[Any]:
    return Column("run", big_integer(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), primary_key=True)


def _run_tables() -> None:
    _table(
        "auditor_audit_versions",
        Column("audit", short_text(), primary_key=True),
        Column("version", short_text(64), primary_key=True),
        Column("definition", Json(), nullable=False),
        Column("since", Moment(), nullable=False),
    )
    _table(
        "auditor_schemas",
        Column("version", short_text(64), primary_key=True),
        Column("columns", Json(), nullable=False),
    )
    _table(
        "auditor_runs",
        Column("number", big_integer(), primary_key=True),
        Column("run", short_text(64), nullable=False, unique=True),
        Column("audit", short_text(), nullable=False),
        Column("version", short_text(64), nullable=False),
        Column("schema_version", short_text(64), ForeignKey("auditor_schemas.version")),
        Column("state", short_text(16), nullable=False),
        Column("verdict", short_text(16), nullable=False),
        Column("exit_code", Integer()),
        Column("method", short_text(16)),
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
        Column("source_rows", big_integer()),
        Column("target_rows", big_integer()),
        Column("partitions", big_integer()),
        Column("unequal", big_integer()),
        Column("missing", big_integer()),
        Column("extra", big_integer()),
        Column("changed", big_integer()),
        Column("unsettled", big_integer()),
        Column("reasons", Json(), nullable=False),
        Column("progress", Json(), nullable=False),
        Column("verified_through", Moment()),
        Column("within_threshold", Boolean()),
        Column("within_threshold_through", Moment()),
        Column("resumable", Boolean(), nullable=False),
        Column("cancel_requested", Boolean(), nullable=False),
        Column("running_audit", short_text(), unique=True),
        ForeignKeyConstraint(["audit", "version"], ["auditor_audit_versions.audit", "auditor_audit_versions.version"]),
        UniqueConstraint("audit", "number"),
    )


def _result_tables() -> None:
    _table(
        "auditor_run_documents",
        _run_column(),
        Column("kind", short_text(16), primary_key=True),
        Column("body", long_binary(), nullable=False),
    )
    _table(
        "auditor_differences",
        _run_column(),
        Column("number", big_integer(), primary_key=True, autoincrement=False),
        Column("kind", short_text(16), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("detail", Json(), nullable=False),
    )
    _table(
        "auditor_chunks",
        _run_column(),
        Column("side", short_text(16), primary_key=True),
        Column("first", short_text(), primary_key=True),
        Column("end_before", short_text(), primary_key=True),
        Column("null_key", Boolean(), primary_key=True),
        Column("row_count", big_integer(), nullable=False),
        Column("seconds", Real(), nullable=False),
        Column("attempts", Integer(), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("payload", long_binary(), nullable=False),
    )
    _table(
        "auditor_evidence",
        Column("audit", short_text(), primary_key=True),
        Column("number", big_integer(), primary_key=True, autoincrement=False),
        Column("run", short_text(64), nullable=False),
        Column("run_number", big_integer(), nullable=False),
        Column("link", long_binary(), nullable=False),
        Column("signature", short_text(128), nullable=False),
        Column("payload", long_binary()),
        Column("row_key", long_binary()),
    )
    _index("auditor_evidence_run", "auditor_evidence", "run")


def _audit_tables() -> None:
    _table(
        "auditor_audit_states",
        Column("audit", short_text(), primary_key=True),
        Column("verified_through", Moment()),
        Column("within_threshold_through", Moment()),
        Column("verified_settings", short_text(64)),
        Column("notified_verdict", short_text(16)),
        Column("notified_failure", Boolean()),
        Column("notified_at", Moment()),
        Column("run_count", big_integer(), nullable=False),
        Column("paused", Boolean(), nullable=False),
        Column("counted_shapes", Json()),
    )
    _table(
        "auditor_incidents",
        Column("number", big_integer(), primary_key=True),
        Column("audit", short_text(), nullable=False),
        Column("open_audit", short_text(), unique=True),
        Column("severity", short_text(16), nullable=False),
        Column("opened", Moment(), nullable=False),
        Column("first_run", short_text(64), nullable=False),
        Column("last_run", short_text(64), nullable=False),
        Column("closed", Moment()),
        Column("closing_run", short_text(64)),
        Column("by", Words()),
        Column("at", Moment()),
        Column("why", Words()),
        Column("muted", Boolean()),
        Column("until", Moment()),
        Column("differences", short_text(8)),
        Column("run", short_text(64)),
        UniqueConstraint("audit", "number"),
    )
    _table(
        "auditor_rolling_parts",
        Column("audit", short_text(), ForeignKey("auditor_audit_states.audit"), primary_key=True),
        Column("number", big_integer(), primary_key=True, autoincrement=False),
        Column("layout", short_text(), nullable=False),
        Column("first", short_text(), nullable=False),
        Column("end_before", short_text(), nullable=False),
        Column("run", big_integer(), ForeignKey("auditor_runs.number"), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("watermark", Moment()),
    )
    _table(
        "auditor_costs",
        Column("day", short_text(10), primary_key=True),
        Column("run", short_text(64), primary_key=True),
        Column("attempt", short_text(32), primary_key=True),
        Column("connection", short_text(), primary_key=True),
        Column("audit", short_text(), nullable=False),
        Column("statements", big_integer(), nullable=False),
        Column("seconds", Real(), nullable=False),
        Column("byte_count", big_integer(), nullable=False),
        Column("usd", Real()),
        Column("at", Moment(), nullable=False),
    )
    _index("auditor_costs_run", "auditor_costs", "run")
    _table(
        "auditor_schedule_claims",
        Column("audit", short_text(), primary_key=True),
        Column("tick", Moment(), primary_key=True),
        Column("claimed_by", Words(), nullable=False),
        Column("at", Moment(), nullable=False),
    )
    _table(
        "auditor_left_out_rows",
        Column("audit", short_text(), primary_key=True),
        Column("settings", short_text(64), nullable=False),
        Column("body", long_binary(), nullable=False),
    )
    _table(
        "auditor_salt",
        Column("number", Integer(), primary_key=True, autoincrement=False),
        Column("salt", long_binary(), nullable=False),
    )


def _queue_tables() -> None:
    _table(
        "auditor_queue",
        _run_column(),
        Column("requested_at", Moment(), nullable=False),
        Column("pending_audit", short_text(), unique=True),
        Column("lost_processes", Integer(), nullable=False),
    )
    _table(
        "auditor_idempotency_keys",
        Column("hash", short_text(64), primary_key=True),
        Column("run", big_integer(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), nullable=False),
        Column("request_hash", short_text(64), nullable=False),
    )
    _table(
        "auditor_definitions",
        Column("audit", short_text(), primary_key=True),
        Column("definition", Json(), nullable=False),
        Column("defined_by", Words(), nullable=False),
        Column("at", Moment(), nullable=False),
    )
    _table(
        "auditor_leases",
        Column("kind", short_text(16), primary_key=True),
        Column("name", short_text(), primary_key=True),
        Column("slot", Integer(), primary_key=True, autoincrement=False),
        Column("holder", short_text(64), nullable=False),
        Column("host", short_text(), nullable=False),
        Column("pid", big_integer(), nullable=False),
        Column("process", short_text(64), nullable=False),
        Column("heartbeat", Moment(), nullable=False),
        Column("until", Moment(), nullable=False),
    )


def _access_tables() -> None:
    _table(
        "auditor_tokens",
        Column("number", big_integer(), primary_key=True),
        Column("name", short_text(), nullable=False),
        Column("valid_name", short_text(), unique=True),
        Column("hash", short_text(64), nullable=False, unique=True),
        Column("scope", short_text(16), nullable=False),
        Column("created_at", Moment(), nullable=False),
        Column("expires", Moment()),
        Column("revoked", Moment()),
        Column("last_used", Moment()),
        Column("created_by", big_integer()),
        Column("audits", Json()),
    )
    _index("auditor_tokens_created_by", "auditor_tokens", "created_by")
    _table(
        "auditor_events",
        Column("number", big_integer(), primary_key=True),
        Column("at", Moment(), nullable=False),
        Column("actor", Words(), nullable=False),
        Column("action", short_text(64), nullable=False),
        Column("subject", Words(), nullable=False),
        Column("detail", Json(), nullable=False),
    )
    _table(
        "auditor_channel_messages",
        Column("channel", short_text(), primary_key=True),
        Column("sent", Json(), nullable=False),
        Column("held_back", big_integer(), nullable=False),
        Column("titles", Json(), nullable=False),
    )


def _patch_tables() -> None:
    _table(
        "auditor_repairs",
        Column("id", short_text(64), primary_key=True),
        Column("run", short_text(64), nullable=False),
        Column("audit", short_text(), nullable=False),
        Column("requested_by", Words(), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("kind", short_text(16), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("detail", Json(), nullable=False),
    )
    _index("auditor_repairs_run_at", "auditor_repairs", "run", "at")
    _table(
        "auditor_patches",
        Column("patch", short_text(64), primary_key=True),
        Column("run", short_text(64), nullable=False),
        Column("audit", short_text(), nullable=False),
        Column("undoes", short_text(64)),
        Column("target", short_text(64), nullable=False),
        Column("requested_by", Words(), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("undoable", Boolean(), nullable=False),
        Column("detail", Json(), nullable=False),
        Column("request_key", short_text(64)),
        Column("after_run", short_text(64)),
    )
    _index("auditor_patches_run_at", "auditor_patches", "run", "at")
    _index("auditor_patches_request_key", "auditor_patches", "request_key", unique=True)
    _index("auditor_patches_after_run", "auditor_patches", "after_run")
    _table(
        "auditor_patch_plans",
        Column("patch", short_text(64), ForeignKey("auditor_patches.patch", ondelete="CASCADE"), primary_key=True),
        Column("body", long_binary(), nullable=False),
    )
    _table(
        "auditor_patch_batches",
        Column("patch", short_text(64), ForeignKey("auditor_patches.patch", ondelete="CASCADE"), primary_key=True),
        Column("number", Integer(), primary_key=True, autoincrement=False),
        Column("state", short_text(16), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("body", long_binary()),
    )


def _bootstrap_tables() -> None:
    _table(
        "auditor_bootstraps",
        Column("bootstrap", short_text(64), primary_key=True),
        Column("audit", short_text(), nullable=False),
        Column("target", short_text(64), nullable=False),
        Column("requested_by", Words(), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("stage", short_text(16), nullable=False),
        Column("detail", Json(), nullable=False),
    )
    _index("auditor_bootstraps_target_at", "auditor_bootstraps", "target", "at")
    _table(
        "auditor_bootstrap_ranges",
        Column("bootstrap", short_text(64), ForeignKey("auditor_bootstraps.bootstrap", ondelete="CASCADE"), primary_key=True),
        Column("number", Integer(), primary_key=True, autoincrement=False),
        Column("detail", Json(), nullable=False),
    )


def _pipeline_tables() -> None:
    _table(
        "auditor_pipelines",
        Column("pipeline", short_text(), primary_key=True),
        Column("paused", Boolean(), nullable=False),
        Column("staged_through", big_integer()),
        Column("staged_time", Moment()),
        Column("staged_at", Moment()),
        Column("source_offset", Json()),
        Column("reason", Words(), nullable=False),
        Column("event_count", big_integer()),
        Column("progress", Json()),
        Column("paused_by", Words()),
        Column("paused_at", Moment()),
        Column("incarnation", short_text(64)),
        Column("joined_through", big_integer()),
    )
    _table(
        "auditor_topic_batches",
        Column("pipeline", short_text(), primary_key=True),
        Column("position", big_integer(), primary_key=True, autoincrement=False),
        Column("body", Json(), nullable=False),
    )
    _table(
        "auditor_parts",
        Column("number", big_integer(), primary_key=True),
        Column("pipeline", short_text(), nullable=False),
        Column("table_name", short_text(), nullable=False),
        Column("first_position", big_integer(), nullable=False),
        Column("last_position", big_integer(), nullable=False),
        Column("row_count", big_integer(), nullable=False),
        Column("byte_count", big_integer(), nullable=False),
        Column("schema_id", short_text(64), nullable=False),
        Column("path", short_text(), nullable=False),
        Column("last_time", Moment(), nullable=False),
        Column("staged_at", Moment(), nullable=False),
        Column("checksum", short_text(64), nullable=False),
        Column("blocks", Json(), nullable=False),
        Column("previous_position", big_integer(), nullable=False),
        UniqueConstraint("pipeline", "table_name", "first_position"),
    )
    _index("auditor_parts_last", "auditor_parts", "pipeline", "last_position")
    _index("auditor_parts_path", "auditor_parts", "pipeline", "path")
    _index("auditor_parts_missing", "auditor_parts", "pipeline", "table_name", "last_position")
    _index("auditor_parts_age", "auditor_parts", "pipeline", "staged_at")
    _table(
        "auditor_table_schemas",
        Column("pipeline", short_text(), primary_key=True),
        Column("schema_id", short_text(64), primary_key=True),
        Column("body", Json(), nullable=False),
    )
    _table(
        "auditor_staged_tables",
        Column("pipeline", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("staged_through", big_integer(), nullable=False),
        Column("pruned_through", big_integer(), nullable=False),
        Column("part_count", big_integer(), nullable=False),
        Column("row_count", big_integer(), nullable=False),
        Column("byte_count", big_integer(), nullable=False),
    )
    _table(
        "auditor_merges",
        Column("pipeline", short_text(), primary_key=True),
        Column("target", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("position", big_integer(), nullable=False),
        Column("through_time", Moment()),
        Column("at", Moment(), nullable=False),
        Column("event_count", big_integer(), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("reason", Words(), nullable=False),
    )


def _watch_tables() -> None:
    _table(
        "auditor_pipeline_lags",
        Column("pipeline", short_text(), primary_key=True),
        Column("at", Moment(), primary_key=True),
        Column("span", Integer(), nullable=False),
        Column("seconds", Real()),
        Column("byte_count", big_integer()),
        Column("rate", Real()),
        Column("tables", long_binary(), nullable=False),
    )
    _table(
        "auditor_pipeline_problems",
        Column("pipeline", short_text(), primary_key=True),
        Column("kind", Integer(), primary_key=True, autoincrement=False),
        Column("target", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("since", Moment(), nullable=False),
        Column("reason", Words(), nullable=False),
        Column("notified", Boolean(), nullable=False),
    )
    _table(
        "auditor_holds",
        Column("pipeline", short_text(), primary_key=True),
        Column("target", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("holder", short_text(64), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("position", big_integer()),
        Column("reason", Words(), nullable=False),
        Column("frozen_at", Moment()),
        Column("until", Moment(), nullable=False),
    )
    _table(
        "auditor_topic_states",
        Column("pipeline", short_text(), primary_key=True),
        Column("target", short_text(), primary_key=True),
        Column("body", Json(), nullable=False),
    )
    _table(
        "auditor_refreshes",
        Column("refresh", short_text(64), primary_key=True),
        Column("pipeline", short_text(), nullable=False),
        Column("table_name", short_text(), nullable=False),
        Column("scope", Json(), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("requested_by", Words(), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("ended", Moment()),
        Column("progress", Json(), nullable=False),
        Column("reason", Words(), nullable=False),
    )
    _index("auditor_refreshes_pipeline_at", "auditor_refreshes", "pipeline", "at")


def _history_tables() -> None:
    _table(
        "auditor_table_notes",
        Column("number", big_integer(), primary_key=True),
        Column("pipeline", short_text(), nullable=False),
        Column("table_name", short_text(), nullable=False),
        Column("position", big_integer(), nullable=False),
        Column("last_position", big_integer(), nullable=False),
        Column("first_row", big_integer(), nullable=False),
        Column("kind", short_text(16), nullable=False),
        Column("target", short_text(), nullable=False),
        Column("event_count", big_integer(), nullable=False),
        Column("time", Moment(), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("body", Json(), nullable=False),
        Column("skipped_at", Moment()),
        Column("skipped_by", Words()),
        Column("skip_reason", Words()),
    )
    _index("auditor_table_notes_place", "auditor_table_notes", "pipeline", "table_name", "position")
    _table(
        "auditor_schema_history",
        Column("pipeline", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("position", big_integer(), primary_key=True, autoincrement=False),
        Column("schema_id", short_text(64), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("catalogue", Json()),
    )
    _table(
        "auditor_migrations",
        Column("number", big_integer(), primary_key=True),
        Column("pipeline", short_text(), nullable=False),
        Column("target", short_text(), nullable=False),
        Column("table_name", short_text(), nullable=False),
        Column("position", big_integer(), nullable=False),
        Column("from_schema", short_text(64), nullable=False),
        Column("to_schema", short_text(64), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("body", Json(), nullable=False),
        Column("reason", Words(), nullable=False),
        Column("at", Moment(), nullable=False),
        Column("ended", Moment()),
    )
    _index("auditor_migrations_place", "auditor_migrations", "pipeline", "table_name", "position")


def _live_tables() -> None:
    _table(
        "auditor_live_epochs",
        Column("epoch", short_text(16), primary_key=True),
        Column("audit", short_text(), nullable=False),
        Column("pipeline", short_text(), nullable=False),
        Column("target", short_text(), nullable=False),
        Column("table_name", short_text(), nullable=False),
        Column("fingerprint", short_text(16), nullable=False),
        Column("layout", short_text(64), nullable=False),
        Column("plan", Json(), nullable=False),
        Column("condition", Words(), nullable=False),
        Column("state", short_text(16), nullable=False),
        Column("requested_at", Moment(), nullable=False),
        Column("position", big_integer(), nullable=False),
        Column("log_place", Words(), nullable=False),
        Column("begun_at", Moment()),
        Column("proved_position", big_integer(), nullable=False),
        Column("proved_log_place", Words(), nullable=False),
        Column("proved_at", Moment()),
        Column("ended", Moment()),
        Column("reason", Words(), nullable=False),
        Column("base", long_binary()),
        Column("base_check", short_text(64), nullable=False),
        Column("ledger", Boolean(), nullable=False),
        Column("ledger_ended", Words(), nullable=False),
    )
    _table(
        "auditor_live_checks",
        Column("epoch", short_text(16), primary_key=True),
        Column("number", big_integer(), primary_key=True, autoincrement=False),
        Column("position", big_integer(), nullable=False),
        Column("at", Moment()),
        Column("noted_at", Moment(), nullable=False),
        Column("scanned", Boolean(), nullable=False),
        Column("apart", long_binary(), nullable=False),
        Column("missing", long_binary(), nullable=False),
    )
    _table(
        "auditor_live_links",
        Column("epoch", short_text(16), primary_key=True),
        Column("place", big_integer(), primary_key=True, autoincrement=False),
        Column("previous", big_integer(), nullable=False),
        Column("layout", short_text(64), nullable=False),
        Column("shape", short_text(64), nullable=False),
        Column("digest", short_text(64), nullable=False),
        Column("body", long_binary(), nullable=False),
    )
    _index("auditor_live_epochs_audit", "auditor_live_epochs", "audit", "requested_at")
    _index("auditor_live_epochs_pipeline", "auditor_live_epochs", "pipeline", "state")
    _table(
        "auditor_row_histories",
        Column("history", short_text(16), primary_key=True),
        Column("audit", short_text(), nullable=False),
        Column("pipeline", short_text(), nullable=False),
        Column("table_name", short_text(), nullable=False),
        Column("fingerprint", short_text(16), nullable=False),
        Column("plan", Json(), nullable=False),
        Column("condition", Words(), nullable=False),
        Column("requested_at", Moment(), nullable=False),
        Column("begins", big_integer()),
        Column("begins_time", Moment()),
        Column("why_there", Words(), nullable=False),
        Column("through", big_integer(), nullable=False),
        Column("shape", short_text(16), nullable=False),
        Column("stopped", Words(), nullable=False),
    )
    _table(
        "auditor_row_version_files",
        Column("history", short_text(16), primary_key=True),
        Column("first_position", big_integer(), primary_key=True, autoincrement=False),
        Column("last_position", big_integer(), nullable=False),
        Column("path", short_text(), nullable=False),
        Column("version_count", big_integer(), nullable=False),
        Column("byte_count", big_integer(), nullable=False),
        Column("newest", Moment(), nullable=False),
    )
    _index("auditor_row_histories_audit", "auditor_row_histories", "audit")
    _index("auditor_row_histories_pipeline", "auditor_row_histories", "pipeline")
    _table(
        "auditor_trackers",
        Column("pipeline", short_text(), primary_key=True),
        Column("token", short_text(64), nullable=False),
        Column("checkpoint", Json()),
        Column("pending_statement", Json()),
        Column("at", Moment(), nullable=False),
    )
    _table(
        "auditor_tracker_dumps",
        Column("pipeline", short_text(), primary_key=True),
        Column("digest", short_text(64), primary_key=True),
        Column("database_name", Words(), nullable=False),
        Column("table_name", Words(), nullable=False),
        Column("statement", Json(), nullable=False),
    )
    _table(
        "auditor_tracker_columns",
        Column("pipeline", short_text(), primary_key=True),
        Column("digest", short_text(64), primary_key=True),
        Column("position", big_integer(), primary_key=True, autoincrement=False),
        Column("database_name", Words(), nullable=False),
        Column("table_name", Words(), nullable=False),
        Column("body", Json(), nullable=False),
    )


def _file_tables() -> None:
    _table(
        "auditor_file_layouts",
        Column("audit", short_text(), primary_key=True),
        Column("partitioning", Json(), nullable=False),
        Column("salt", short_text(64), nullable=False),
        Column("table_rows", big_integer(), nullable=False),
        Column("aim", big_integer(), nullable=False),
        Column("begun_at", Moment(), nullable=False),
        Column("proved_at", Moment()),
    )
    _table(
        "auditor_file_sums",
        Column("reading", short_text(64), primary_key=True),
        Column("file", short_text(64), primary_key=True),
        Column("form", short_text(64), nullable=False),
        Column("body", long_binary(), nullable=False),
        Column("check_sum", short_text(64), nullable=False),
        Column("used_at", Moment(), nullable=False),
    )
    _index("auditor_file_sums_file", "auditor_file_sums", "file")
    _index("auditor_file_sums_used", "auditor_file_sums", "used_at")


def _segment_tables() -> None:
    _table(
        "auditor_segments",
        Column("pipeline", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("last_position", big_integer(), primary_key=True, autoincrement=False),
        Column("last_row", big_integer(), primary_key=True, autoincrement=False),
        Column("first_position", big_integer(), nullable=False),
        Column("first_row", big_integer(), nullable=False),
        Column("row_count", big_integer(), nullable=False),
        Column("byte_count", big_integer(), nullable=False),
        Column("schema_id", short_text(64), nullable=False),
        Column("sha256", short_text(64), nullable=False),
        Column("encoding", Integer(), nullable=False),
        Column("path", short_text(), nullable=False),
        Column("blocks", Json(), nullable=False),
        Column("began", Moment(), nullable=False),
        Column("ended", Moment(), nullable=False),
        Column("gtid", Words()),
        Column("first_gtid", Words()),
        Column("older", Json()),
        Column("buckets", long_binary()),
    )
    op.create_index("auditor_segments_path", "auditor_segments", ["pipeline", "path"])
    _table(
        "auditor_segmented_tables",
        Column("pipeline", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("free_through", big_integer(), nullable=False),
    )
    _table(
        "auditor_segment_progress",
        Column("pipeline", short_text(), primary_key=True),
        Column("through", big_integer(), nullable=False),
        Column("latest_commit", big_integer(), nullable=False),
        Column("replacements", Integer(), nullable=False),
    )


def _register_tables() -> None:
    _table(
        "auditor_segment_registers",
        Column("audit", short_text(), primary_key=True),
        Column("sides", Json(), nullable=False),
        Column("compared_by", short_text(16), nullable=False),
        Column("sequence", short_text()),
        Column("refused", Words(), nullable=False),
        Column("versions", Json()),
    )
    _table(
        "auditor_registered_segments",
        Column("audit", short_text(), primary_key=True),
        Column("table_name", short_text(), primary_key=True),
        Column("side", Integer(), primary_key=True, autoincrement=False),
        Column("start_at", big_integer(), primary_key=True, autoincrement=False),
        Column("start_row", big_integer(), primary_key=True, autoincrement=False),
        Column("overlap", Integer(), primary_key=True, autoincrement=False),
        Column("end_at", big_integer(), nullable=False),
        Column("end_row", big_integer(), nullable=False),
        Column("row_count", big_integer(), nullable=False),
        Column("schema_id", short_text(64), nullable=False),
        Column("sha256", short_text(64), nullable=False),
        Column("encoding", Integer(), nullable=False),
        Column("first_position", big_integer(), nullable=False),
        Column("last_position", big_integer(), nullable=False),
        Column("gtid", Words()),
        Column("began", Moment(), nullable=False),
        Column("ended", Moment(), nullable=False),
        Column("registered", Moment(), nullable=False),
        Column("verdict", short_text(16), nullable=False),
        Column("matched_position", big_integer()),
        Column("matched_row", big_integer()),
        Column("older", Json()),
        Column("buckets", long_binary()),
    )
    _table(
        "auditor_segment_values",
        Column("audit", short_text(), primary_key=True),
        Column("finding", short_text(64), primary_key=True),
        Column("body", Json(), nullable=False),
    )
