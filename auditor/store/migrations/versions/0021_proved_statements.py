"""Store the shapes of statements whose rows were held against a count of the whole table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add the column."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created it.
    if not any(column["name"] == "proved" for column in sa.inspect(op.get_bind()).get_columns("auditor_standing")):
        op.add_column("auditor_standing", sa.Column("proved", Json()))
