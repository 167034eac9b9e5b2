"""Add the history of what pipelines lagged behind, their problems, and who paused them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Moment, Real, Words, blob, name, number

revision = "0015"
down_revision = "0014"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the tables, and add the columns."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    seen = sa.inspect(op.get_bind())
    existing = set(seen.get_table_names())
    if "auditor_pipeline_lags" not in existing:
        op.create_table(
            "auditor_pipeline_lags",
            sa.Column("pipeline", name(), primary_key=True),
            sa.Column("at", Moment(), primary_key=True),
            sa.Column("span", sa.Integer(), nullable=False),
            sa.Column("seconds", Real()),
            sa.Column("byte_count", number()),
            sa.Column("rate", Real()),
            sa.Column("tables", blob(), nullable=False),
            **MYSQL,
        )
    if "auditor_pipeline_problems" not in existing:
        op.create_table(
            "auditor_pipeline_problems",
            sa.Column("pipeline", name(), primary_key=True),
            sa.Column("kind", sa.Integer(), primary_key=True, autoincrement=False),
            sa.Column("target", name(), primary_key=True),
            sa.Column("table_name", name(), primary_key=True),
            sa.Column("since", Moment(), nullable=False),
            sa.Column("reason", Words(), nullable=False),
            sa.Column("told", sa.Boolean(), nullable=False),
            **MYSQL,
        )
    columns = {column["name"] for column in seen.get_columns("auditor_pipelines")}
    if "paused_by" not in columns:
        op.add_column("auditor_pipelines", sa.Column("paused_by", Words()))
    if "paused_at" not in columns:
        op.add_column("auditor_pipelines", sa.Column("paused_at", Moment()))
