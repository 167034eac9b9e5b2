"""Count the events that pipelines staged, and store what their processes see of source and staging."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Json, number

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created one of them.
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("auditor_pipelines")}
    for column in (sa.Column("event_count", number()), sa.Column("progress", Json())):
        if column.name not in there:
            op.add_column("auditor_pipelines", column)
