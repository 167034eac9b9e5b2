"""Add the count of replacements by which the writer of a pipeline's segments notices that some were replaced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add the column."""
    existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("auditor_segment_progress")}
    if "replaced" not in existing:
        op.add_column("auditor_segment_progress", sa.Column("replaced", sa.Integer(), nullable=False, server_default="0"))
