"""Test a connection's own engine: canonical texts, the published example, and every kind of statement, against the reference in Python.

Nothing is written into a schema: the values are in temporary tables where the session may have them, else in derived tables of the
statements themselves. What an engine computes is compared with ``auditor.canonical`` and with plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import dialects
from auditor.config import Settings
from auditor.errors import ConfigError
from auditor.service.selftest._bench import Bench, Check, Differs
from auditor.service.selftest._example import check_example
from auditor.service.selftest._pieces import check_pieces
from auditor.service.selftest._samples import SAMPLES, Sample, catalogue_kind
from auditor.service.selftest._server import check_server
from auditor.service.selftest._statements import check_statements
from auditor.service.selftest._texts import check_texts
from dialects import Session

__all__ = ["SAMPLES", "Check", "Differs", "Sample", "SelfTest", "catalogue_kind", "check_session", "ignore_check", "selftest"]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a self-test found."""

    connection: str
    """Name of the connection."""
    engine: str
    """Name of the dialect."""
    server: str
    """Name and version of the server."""
    tables: str
    """Where the values were, for a person."""
    checks: tuple[Check, ...]
    """All checks, in the order in which they were made."""

    @property
    def failed(self) -> list[Check]:
        """Return the checks that failed."""
        return [check for check in self.checks if check.outcome == "failed"]


def ignore_check(_: Check) -> None:
    """Ignore a check."""


def selftest(settings: Settings, connection: str, on_check: Callable[[Check], None] = ignore_check) -> SelfTest:
    """Test the engine behind a connection. ``on_check`` receives each check as it ends.

    Raises ConfigError for an unknown name, and errors of the tree if the server cannot be reached or the connection is lost.
    """
    if connection not in settings.connections:
        known = ", ".join(sorted(settings.connections)) or "none"
        raise ConfigError(f"there is no connection {connection!r}; auditor.yaml has: {known}")
    configured = settings.connections[connection]
    limits = configured.limits
    with closing(dialects.connect(configured.url, limits.statement_timeout, limits.lock_timeout)) as session:
        return check_session(session, connection, on_check)


def check_session(session: Session, name: str, on_check: Callable[[Check], None] = ignore_check) -> SelfTest:
    """Test the engine behind an open session of the connection ``name``. Raises errors of the tree if the connection is lost."""
    bench = Bench(session, on_check)
    try:
        for part in (check_texts, check_pieces, check_example, check_statements, check_server):
            part(bench)
    finally:
        bench.drop_tables()
    tables = "temporary tables, which end with the session"
    if bench.refusal:
        tables = f"values in each statement, because the session may have no temporary tables: {bench.refusal}"
    return SelfTest(name, session.dialect.name, session.server, tables, tuple(bench.checks))
