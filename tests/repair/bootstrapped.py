"""What the tests of bootstraps share: to see which tables one left beside its target, and to begin without any."""

from __future__ import annotations

from tests import tables
from tests.live import LiveEngine

LEFT = ("auditor_new_", "patched_target_old_", "t_old_")
"""How the names of tables begin that bootstraps of the tests' targets make."""


def left(engine: LiveEngine) -> list[str]:
    """Return the names of such tables that are there."""
    with tables.open_writable(engine) as session:
        return sorted(table.name for table in session.dialect.list_tables(session) if table.name.startswith(LEFT))


def clean(engine: LiveEngine) -> None:
    """Drop such tables."""
    with tables.open_writable(engine) as session:
        for table in session.dialect.list_tables(session):
            if table.name.startswith(LEFT):
                session.execute(f"DROP TABLE {session.dialect.table(table.schema, table.name)}")
