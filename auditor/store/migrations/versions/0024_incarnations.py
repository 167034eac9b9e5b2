"""Give pipelines an incarnation, which their staging and their targets carry too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import name

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add the column; a pipeline of before gets its incarnation when it starts."""
    if "incarnation" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("auditor_pipelines")}:
        op.add_column("auditor_pipelines", sa.Column("incarnation", name(64)))
