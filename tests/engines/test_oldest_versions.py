"""Servers that cannot serve: too old, or behind a pooler that keeps no sessions. Each is refused when a connection is made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

import dialects
from auditor.errors import ServerTooOld, SessionNotKept
from dialects.duckdb import dialect as duckdb
from dialects.mysql import dialect as mysql
from dialects.mysql import session as mysql_session
from dialects.oldest_versions import OldestVersion
from dialects.pooler import refuse_lent_sessions
from dialects.postgres import dialect as postgres
from dialects.session import Driver, DriverSession
from dialects.spark import dialect as spark
from tests.live import Engines, LiveEngine, engine_params
from tests.servers import mysql_old, pgbouncer


@pytest.mark.parametrize("pool", ["transaction", "statement"])
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_pool_by_transaction_is_refused(engine: LiveEngine, engines: Engines, pool: str) -> None:
    pooled = engines.companion(f"pgbouncer-{pool}", pgbouncer.starter(engine.url, pool))
    for _ in range(3):  # with a pool that is cold, and warm
        with pytest.raises(SessionNotKept, match=r"a pooler lends this connection .* pool_mode = session") as refused:
            dialects.connect(pooled.url)
        assert refused.value.exit_code == 2
        assert "audit:audit" not in str(refused.value)


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_pool_by_session_serves(engine: LiveEngine, engines: Engines) -> None:
    pooled = engines.companion("pgbouncer-session", pgbouncer.starter(engine.url, "session"))
    with closing(dialects.connect(pooled.url, 77.0)) as session, closing(dialects.connect(pooled.url)):
        assert session.query("SHOW statement_timeout") == [("77s",)]
        with closing(dialects.connect(engine.url)) as direct:
            assert direct.query("SELECT 1") == [(1,)]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_pool_of_one_session_serves(engine: LiveEngine, engines: Engines) -> None:
    """The other connection, which would tell, gets no session: that proves that the first one keeps its own."""
    pooled = engines.companion("pgbouncer-single", pgbouncer.starter(engine.url, "session", size=1))
    with closing(dialects.connect(f"{pooled.url}?connect_timeout=2")) as session:
        assert session.query("SELECT 1") == [(1,)]


class Pooled:
    """A client's connection to a pooler that lends it one of two server sessions for each statement, or always the same."""

    def __init__(self, sessions: Sequence[Any], keeps: bool) -> None:
        self._sessions: Iterator[Any] = itertools.repeat(sessions[0]) if keeps else itertools.cycle(sessions)

    def cursor(self) -> Any:
        return next(self._sessions).cursor()

    def close(self) -> None:
        """Give nothing back: the sessions are the pool's."""


class Resetting(Pooled):
    """One that resets the session before each statement."""

    def cursor(self) -> Any:
        cursor = super().cursor()
        cursor.execute("SET auditor.session TO ''" if "psycopg2" in type(cursor).__module__ else "SET @auditor_session = NULL")
        return cursor


PROBES = {"mysql": mysql_session.PROBE, "mariadb": mysql_session.PROBE, "postgres": postgres.PROBE}


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
def test_any_pooler_is_known_by_its_sessions(engine: LiveEngine) -> None:
    """One that lends two server sessions in turn, one that resets what it lends, one that keeps them, and none."""
    with ExitStack() as opened:
        opened_sessions = [opened.enter_context(closing(dialects.connect(engine.url))) for _ in range(3)]
        sessions = [one for one in opened_sessions if isinstance(one, DriverSession)]
        first, second, third = (one.connection for one in sessions)
        probe, file = PROBES[engine.name], sessions[0].driver.file_descriptor

        def driver(other: Pooled) -> Driver:
            return Driver("shop", 10.0, lambda: other, lambda _: file(third), lambda error, where: None)

        def check(own: Pooled, other: Pooled, told: int = 999_999_999) -> None:
            refuse_lent_sessions(own, told, 1, probe, driver(other), "0123456789abcdef")

        check(Pooled([first], True), Pooled([second], True))
        check(Pooled([first, second], False), Pooled([first], True), told=1)  # the server itself
        for own, other in (
            (Pooled([first, second], False), Pooled([third], True)),
            (Pooled([first], True), Pooled([first], True)),
            (Pooled([first], True), Pooled([second, third], False)),
        ):
            with pytest.raises(SessionNotKept, match=f"shop: a pooler lends .* {probe.suggestion}"):
                check(own, other)
        with pytest.raises(SessionNotKept, match="a pooler lends"):
            check(Resetting([first], True), Pooled([second], True))


def test_old_mysql_is_refused_in_one_sentence(engines: Engines) -> None:
    old = engines.companion("mysql-5.6", mysql_old.start)
    with pytest.raises(ServerTooOld) as refused:
        dialects.connect(old.url)
    assert str(refused.value).endswith(
        f"MySQL {old.version} is too old: 8.0.22 is the oldest that has window functions, REGEXP_REPLACE, CAST to FLOAT and"
        " SHOW REPLICA STATUS; upgrade the server, or audit a newer replica or copy of it"
    )
    assert "\n" not in str(refused.value)


OLD_AND_NEW = [
    (mysql.OLDEST[False], "5.7.44-log", "8.0.22"),
    (mysql.OLDEST[False], "8.0.21-ubuntu", "8.0.mysql_aurora.3.05.2"),
    (mysql.OLDEST[False], "8.0.3-rc", "9.7.4-2"),
    (mysql.OLDEST[True], "10.5.29-MariaDB", "10.11.19-MariaDB-0+deb12u1-log"),
    (postgres.OLDEST, "12.22 (Debian 12.22-1)", "15.20 (Debian 15.20-0+deb12u1)"),
    (postgres.OLDEST, "9.6.24", "18beta1"),
    (duckdb.OLDEST, "1.4.3", "1.5.0"),
    (spark.OLDEST, "3.5.7", "4.0.0"),
]


@pytest.mark.parametrize(("oldest", "old", "new"), OLD_AND_NEW)
def test_oldest_versions_tell_old_from_new(oldest: OldestVersion, old: str, new: str) -> None:
    with pytest.raises(ServerTooOld) as refused:
        oldest.check(old, "scheme://host/")
    assert str(refused.value).startswith(f"scheme://host/: {oldest.product} {old} is too old: {oldest.oldest} is the oldest that has ")
    oldest.check(new, "scheme://host/")
    oldest.check("", "scheme://host/")


def test_floor_is_checked_before_duckdb_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdb.__version__", "1.4.9")
    with pytest.raises(ServerTooOld, match="to_arrow_reader"):
        dialects.connect("duckdb:///:memory:")
