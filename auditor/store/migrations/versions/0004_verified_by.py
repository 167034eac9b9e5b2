"""Store the settings under which an audit was verified."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import name

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column. Earlier verifications have no settings, so they are not reported until a run verifies the audit again."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have created it.
    if not any(column["name"] == "verified_by" for column in sa.inspect(op.get_bind()).get_columns("auditor_standing")):
        op.add_column("auditor_standing", sa.Column("verified_by", name(64)))
