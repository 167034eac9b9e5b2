"""Add to a note the number that its first event has in its transaction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import number

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the column; what was noted before is about all events of a table at its position."""
    if "first_row" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("auditor_table_notes")}:
        op.add_column("auditor_table_notes", sa.Column("first_row", number(), nullable=False, server_default="-1"))
