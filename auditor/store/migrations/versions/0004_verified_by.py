"""What was verified says by which settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import name

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the column. What was verified before tells no settings, so it is not told until a run verifies it again."""
    # Where tables are changed outside of a transaction, an upgrade may have been ended after it was made.
    if not any(column["name"] == "verified_by" for column in sa.inspect(op.get_bind()).get_columns("auditor_standing")):
        op.add_column("auditor_standing", sa.Column("verified_by", name(64)))
