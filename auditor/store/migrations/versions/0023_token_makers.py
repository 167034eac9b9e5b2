"""Store which token made a token or a session, so that it ends with the one that made it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from auditor.store._types import number

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the column and its index. Sessions of before have no maker, and end: people log in again."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    seen = sa.inspect(op.get_bind())
    if not any(column["name"] == "maker" for column in seen.get_columns("auditor_tokens")):
        op.add_column("auditor_tokens", sa.Column("maker", number()))
    if not any(index["name"] == "auditor_tokens_maker" for index in seen.get_indexes("auditor_tokens")):
        op.create_index("auditor_tokens_maker", "auditor_tokens", ["maker"])
