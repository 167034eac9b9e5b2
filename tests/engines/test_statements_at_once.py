"""Statements that write are sent to MySQL and MariaDB at once; where these, or what is between, refuse that, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymysql.constants.COMMAND import COM_SET_OPTION

from dialects import Session, errors
from dialects.mysql.session import MySQLSession
from tests import tables
from tests.live import LiveEngine, engine_params

STATEMENTS = ["UPDATE at_once SET name = 'b; c' WHERE id = 1", "DELETE FROM at_once WHERE id = 9", "DELETE FROM at_once WHERE id > 1"]
COUNTS = [1, 0, 2]
WRITTEN = [(1, "b; c")]
BEFORE = [(1, "a"), (2, "a"), (3, "a")]
OFF, UNKNOWN = b"\1\0", b"\7\0"
"""Arguments of the command that sets an option of the connection."""

pytestmark = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)


@pytest.fixture
def session(engine: LiveEngine) -> Iterator[MySQLSession]:
    """A session in a transaction, which may write a table of three rows."""
    tables.execute(engine, "DROP TABLE IF EXISTS at_once", "CREATE TABLE at_once (id INT PRIMARY KEY, name VARCHAR(9))")
    tables.execute(engine, "INSERT INTO at_once VALUES (1, 'a'), (2, 'a'), (3, 'a')")
    with tables.open_writable(engine) as opened:
        assert isinstance(opened, MySQLSession)
        opened.execute("BEGIN")
        opened.statements = 0
        yield opened
        opened.execute("ROLLBACK")


def rows(session: Session) -> list[tuple[Any, ...]]:
    return session.query("SELECT id, name FROM at_once ORDER BY id")


def sent(session: MySQLSession, monkeypatch: pytest.MonkeyPatch, option: bytes | None = None) -> list[int]:
    """Return the list of the commands that the session will have sent; ``option`` is set in place of any other."""
    commands: list[int] = []
    plain = session.connection._execute_command

    def send(command: int, text: Any) -> None:
        commands.append(command)
        plain(command, option if option and command == COM_SET_OPTION else text)

    monkeypatch.setattr(session.connection, "_execute_command", send)
    return commands


def test_statements_are_sent_at_once(session: MySQLSession, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = sent(session, monkeypatch)
    assert session.loading.write_each(STATEMENTS) == COUNTS
    assert session.statements == len(STATEMENTS) and len(commands) == 2
    assert rows(session) == WRITTEN
    assert session.loading.write_each([]) == [] and session.loading.write_each(STATEMENTS[:1]) == [0]


@pytest.mark.parametrize("option", [OFF, UNKNOWN], ids=["at once", "the option"])
def test_statements_are_sent_one_by_one_where_several_are_refused(
    option: bytes, session: MySQLSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = sent(session, monkeypatch, option)
    for _ in range(2):
        assert session.loading.write_each(STATEMENTS) == COUNTS
        assert rows(session) == WRITTEN
        session.execute("ROLLBACK")
        session.execute("BEGIN")
    assert commands.count(COM_SET_OPTION) == 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_statement_that_fails_is_told_and_none_runs_after_it(number: int, session: MySQLSession) -> None:
    statements = list(STATEMENTS)
    statements[number] = "INSERT INTO at_once VALUES (1, 'twice')"
    with pytest.raises(errors.StatementRefused, match="Duplicate entry '1' for key"):
        session.loading.write_each(statements)
    assert rows(session) == (BEFORE if number == 0 else [(1, "b; c"), *BEFORE[1:]])
    session.execute("ROLLBACK")
    assert rows(session) == BEFORE
    assert session.loading.write_each(STATEMENTS) == COUNTS


def test_statements_that_are_too_long_together_are_sent_in_pieces(session: MySQLSession, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = sent(session, monkeypatch)
    session.dialect.MAX_STATEMENT_BYTES = 2 * (len(STATEMENTS[0]) + len(STATEMENTS[1]) + 4)
    assert session.loading.write_each(STATEMENTS) == COUNTS
    assert len(commands) == 3 and rows(session) == WRITTEN


def test_an_answer_that_is_missing_is_an_error(session: MySQLSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.loading, "write_at_once", lambda sql: iter([1, 0]))
    with pytest.raises(errors.StatementRefused, match="of 3 statements that were sent at once, 2 were answered"):
        session.loading.write_each(STATEMENTS)
