"""Add an index for finding repairs by their run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the index."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created it.
    if not any(index["name"] == "auditor_repairs_run_at" for index in sa.inspect(op.get_bind()).get_indexes("auditor_repairs")):
        op.create_index("auditor_repairs_run_at", "auditor_repairs", ["run", "at"])
