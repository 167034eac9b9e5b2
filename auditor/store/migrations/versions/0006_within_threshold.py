"""Store which matches were matches only within a threshold, and up to when; and whether channels were notified of a failed run."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import Moment

revision = "0006"
down_revision = "0005"

COLUMNS: tuple[tuple[str, str, Any], ...] = (
    ("auditor_runs", "within_threshold", sa.Boolean),
    ("auditor_runs", "within_threshold_through", Moment),
    ("auditor_standing", "within_threshold_through", Moment),
    ("auditor_standing", "told_failure", sa.Boolean),
)

AUDITS_AT_ONCE = 500


def upgrade() -> None:
    """Add the columns, and fill them for matches that were stored with differing rows or, where none were named, partitions.

    Earlier versions took such a match as verified, so audits that had one are not verified until a run verifies them again.
    """
    connection = op.get_bind()
    for table, column, kind in COLUMNS:
        # MySQL changes tables outside of a transaction, so an interrupted migration may have created it.
        if not any(existing["name"] == column for existing in sa.inspect(connection).get_columns(table)):
            op.add_column(table, sa.Column(column, kind()))
    runs, standing = (sa.table(name, *map(sa.column, columns)) for name, columns in TABLES.items())
    kinds = (runs.c.missing, runs.c.extra, runs.c.changed, runs.c.unsettled)
    differ = sa.or_(*(kind > 0 for kind in kinds), sa.and_(runs.c.missing.is_(None), runs.c.unequal > 0))
    within = sa.and_(runs.c.verdict == "match", differ)
    connection.execute(sa.update(runs).where(within).values(within_threshold=sa.true()))
    audits = list(connection.execute(sa.select(runs.c.audit).where(within).distinct()).scalars())
    for start in range(0, len(audits), AUDITS_AT_ONCE):
        some = audits[start : start + AUDITS_AT_ONCE]
        for each in (runs, standing):
            connection.execute(sa.update(each).where(each.c.audit.in_(some)).values(verified_through=None))


TABLES = {
    "auditor_runs": (
        "audit", "verdict", "missing", "extra", "changed", "unsettled", "unequal", "within_threshold", "verified_through",
    ),
    "auditor_standing": ("audit", "verified_through"),
}  # fmt: skip
"""The columns that the migration reads and writes."""
