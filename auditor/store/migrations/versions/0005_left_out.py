"""Store the rows that the last runs of each audit left out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import blob, name

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created it.
    if not sa.inspect(op.get_bind()).has_table("auditor_left_out"):
        op.create_table(
            "auditor_left_out",
            sa.Column("audit", name(), primary_key=True),
            sa.Column("settings", name(64), nullable=False),
            sa.Column("body", blob(), nullable=False),
            mysql_engine="InnoDB",
            mysql_charset="utf8mb4",
            mysql_collate="utf8mb4_bin",
        )
