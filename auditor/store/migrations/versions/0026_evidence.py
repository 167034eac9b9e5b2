"""Add the table of evidence."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import blob, name, number

revision = "0026"
down_revision = "0025"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create the table and its index."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    seen = sa.inspect(op.get_bind())
    if "auditor_evidence" not in seen.get_table_names():
        op.create_table(
            "auditor_evidence",
            sa.Column("audit", name(), primary_key=True),
            sa.Column("number", number(), primary_key=True, autoincrement=False),
            sa.Column("run", name(64), nullable=False),
            sa.Column("run_number", number(), nullable=False),
            sa.Column("link", blob(), nullable=False),
            sa.Column("signature", name(128), nullable=False),
            sa.Column("payload", blob()),
            sa.Column("row_key", blob()),
            **MYSQL,
        )
        seen = sa.inspect(op.get_bind())
    if not any(index["name"] == "auditor_evidence_run" for index in seen.get_indexes("auditor_evidence")):
        op.create_index("auditor_evidence_run", "auditor_evidence", ["run"])
