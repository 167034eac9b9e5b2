"""Add the tables of pipelines: their manifest, what targets reported, and leases."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, Moment, Words, name, number

revision = "0007"
down_revision = "0006"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created some of them.
    existing = set(sa.inspect(op.get_bind()).get_table_names())
    for table, parts in _tables().items():
        if table not in existing:
            op.create_table(table, *parts, **MYSQL)


def _tables() -> dict[str, list[sa.Column[Any] | sa.UniqueConstraint]]:
    def key(column: str, length: int = 255) -> sa.Column[Any]:
        return sa.Column(column, name(length), primary_key=True)

    def needed(column: str, kind: Any) -> sa.Column[Any]:
        return sa.Column(column, kind, nullable=False)

    return {
        "auditor_pipelines": [
            key("pipeline"),
            needed("paused", sa.Boolean()),
            sa.Column("staged_through", number()),
            sa.Column("staged_time", Moment()),
            sa.Column("staged_at", Moment()),
            sa.Column("source_offset", Json()),
            needed("reason", Words()),
        ],
        "auditor_parts": [
            sa.Column("number", number(), primary_key=True),
            needed("pipeline", name()),
            needed("table_name", name()),
            needed("first_position", number()),
            needed("last_position", number()),
            needed("row_count", number()),
            needed("byte_count", number()),
            needed("schema_id", name(64)),
            needed("path", Words()),
            needed("last_time", Moment()),
            needed("staged_at", Moment()),
            sa.UniqueConstraint("pipeline", "table_name", "first_position", name="auditor_parts_pipeline_table_name_first_position"),
        ],
        "auditor_table_schemas": [key("pipeline"), key("schema_id", 64), needed("body", Json())],
        "auditor_staged_tables": [
            key("pipeline"),
            key("table_name"),
            needed("staged_through", number()),
            needed("pruned_through", number()),
        ],
        "auditor_merges": [
            key("pipeline"),
            key("target"),
            key("table_name"),
            needed("position", number()),
            sa.Column("through_time", Moment()),
            needed("at", Moment()),
            needed("event_count", number()),
            needed("state", name(16)),
            needed("reason", Words()),
        ],
        "auditor_leases": [key("source", 64), needed("holder", name(64)), needed("about", Words()), needed("until", Moment())],
    }
