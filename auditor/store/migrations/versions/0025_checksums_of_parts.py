"""List the checksum of each part, which everyone who reads it verifies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import name

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add the column; parts of before have no checksum."""
    if "checksum" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("auditor_parts")}:
        op.add_column("auditor_parts", sa.Column("checksum", name(64)))
