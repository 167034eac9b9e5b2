"""What the tests of bootstraps share: to see which tables one left beside its target, and to begin without any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dialects
from dialects import Session
from dialects.committing import Committing
from tests import tables
from tests.live import LiveEngine

LEFT = ("auditor_new_", "patched_target_old_", "t_old_")
"""How the names of tables begin that bootstraps of the tests' targets make."""


@contextmanager
def opened(engine: LiveEngine) -> Iterator[Session]:
    """Yield a session of the engine's own that may write."""
    if engine.dialect != "delta":
        with tables.open_writable(engine) as session:
            yield session
        return
    session = dialects.connect(f"{engine.url}?access_mode=read_write")
    try:
        yield session
    finally:
        session.close()


def left(engine: LiveEngine) -> list[str]:
    """Return the names of such tables that are there."""
    with opened(engine) as session:
        return sorted(table.name for table in session.dialect.catalogue.list_tables(session) if table.name.startswith(LEFT))


def clean(engine: LiveEngine) -> None:
    """Drop such tables."""
    with opened(engine) as session:
        for table in session.dialect.catalogue.list_tables(session):
            if table.name.startswith(LEFT):
                if isinstance(session, Committing):
                    session.drop_table(session.dialect.names.table(table.name))
                    continue
                session.execute(f"DROP TABLE {session.dialect.names.table(table.schema, table.name)}")
