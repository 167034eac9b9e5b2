"""What sessions set and ask when they begin: how often a session waits for its server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import dialects
from dialects import errors
from dialects.mysql import settings as mysql_settings
from dialects.mysql.session import MySQLSession
from dialects.postgres import settings as postgres_settings
from dialects.postgres.session import PostgresSession
from dialects.redshift.session import RedshiftSession


class Recorder(PostgresSession):
    """A session whose server answers everything at once."""

    def __init__(self, dialect: dialects.Dialect) -> None:
        self.dialect = dialect
        self.driver: Any = SimpleNamespace(where="a server")
        self.sent: list[str] = []

    def execute(self, sql: str) -> None:
        self.sent.append(sql)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        self.sent.append(sql)
        return [tuple(value.strip("'") for value in postgres_settings.HELD.values())]

    def close(self) -> None:
        raise AssertionError("nothing failed")


class RecorderOfMySQL(MySQLSession):
    """A session whose server answers everything at once."""

    def __init__(self, dialect: dialects.Dialect) -> None:
        self.dialect = dialect
        self.server = "MySQL 9.4"
        self.sent: list[str] = []

    def execute(self, sql: str) -> None:
        self.sent.append(sql)


class RecorderOfRedshift(RedshiftSession):
    """A session whose server answers everything at once."""

    def __init__(self, dialect: dialects.Dialect) -> None:
        self.dialect = dialect
        self.sent: list[str] = []

    def execute(self, sql: str) -> None:
        self.sent.append(sql)


RECORDERS: dict[str, Any] = {"postgres": Recorder, "mysql": RecorderOfMySQL, "redshift": RecorderOfRedshift}


@pytest.mark.parametrize(("engine", "trips"), [("postgres", 1), ("mysql", 2), ("redshift", 4)])
def test_settings_take_few_round_trips(engine: str, trips: int) -> None:
    session: Any = RECORDERS[engine](dialects.get(engine))
    session.pin(60.0, 10.0)
    assert len(session.sent) == trips
    assert "; ".join(session.sent).startswith("; ".join(session.dialect.pin_statements(60.0, 10.0))), "each setting is made"


class Server:
    """A MySQL server that answers queries, with or without MD5(), or is lost."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        if self.answer == "lost":
            raise errors.ConnectionLost("the server has gone away")
        if "MD5" in sql and self.answer == "without":
            raise errors.StatementRefused("FUNCTION MD5 does not exist")
        return [("STRICT", 1 << 20, 7, "host:1", "comment", "/usr", "")[: 7 if "MD5" in sql else 6]]


@pytest.mark.parametrize(
    ("answer", "certain", "trips", "found"), [("with", False, 1, True), ("without", False, 2, False), ("with", True, 1, True)]
)
def test_a_server_without_md5_is_asked_again_for_its_variables(answer: str, certain: bool, trips: int, found: bool) -> None:
    server: Any = Server(answer)
    assert mysql_settings.read(server, [], certain) == mysql_settings.Answer("STRICT", 1 << 20, 7, "host:1", "comment", "/usr", found, {})
    assert len(server.asked) == trips


def test_a_lost_server_is_not_taken_for_one_without_md5() -> None:
    server: Any = Server("lost")
    with pytest.raises(errors.ConnectionLost):
        mysql_settings.read(server, [], False)
    assert len(server.asked) == 1
