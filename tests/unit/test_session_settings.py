"""The settings that sessions make when they begin: how often a session waits for its server."""

from __future__ import annotations

from typing import Any

import pytest

import dialects
from dialects.postgres_session import PostgresSession


class Recorder(PostgresSession):
    """A session whose server answers everything at once."""

    def __init__(self, dialect: dialects.Dialect) -> None:
        self.dialect = dialect
        self.sent: list[str] = []

    def execute(self, sql: str) -> None:
        self.sent.append(sql)

    def close(self) -> None:
        raise AssertionError("nothing failed")


@pytest.mark.parametrize(("engine", "trips"), [("postgres", 1), ("mysql", 2), ("redshift", 4)])
def test_settings_take_few_round_trips(engine: str, trips: int) -> None:
    session: Any = Recorder(dialects.get(engine))
    session.pin(60.0, 10.0)
    assert len(session.sent) == trips
    assert "; ".join(session.sent) == "; ".join(session.dialect.pin_statements(60.0, 10.0)), "each setting is made"
