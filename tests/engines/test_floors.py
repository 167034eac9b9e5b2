"""Servers that cannot serve: too old, or behind a pooler that keeps no sessions. Each is refused when a connection is made."""

from __future__ import annotations

from contextlib import closing

import pytest

import dialects
from auditor.errors import ServerTooOld, SessionNotKept
from dialects import duckdb, mysql, postgres
from dialects.floors import Floor
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
    (mysql.FLOORS[False], "5.7.44-log", "8.0.22"),
    (mysql.FLOORS[False], "8.0.21-ubuntu", "8.0.mysql_aurora.3.05.2"),
    (mysql.FLOORS[False], "8.0.3-rc", "9.7.4-2"),
    (mysql.FLOORS[True], "10.5.29-MariaDB", "10.11.19-MariaDB-0+deb12u1-log"),
    (postgres.FLOOR, "12.22 (Debian 12.22-1)", "15.20 (Debian 15.20-0+deb12u1)"),
    (postgres.FLOOR, "9.6.24", "18beta1"),
    (duckdb.FLOOR, "1.4.3", "1.5.0"),
    (spark.FLOOR, "3.5.7", "4.0.0"),
]


@pytest.mark.parametrize(("floor", "old", "new"), OLD_AND_NEW)
def test_floors_tell_old_from_new(floor: Floor, old: str, new: str) -> None:
    with pytest.raises(ServerTooOld) as refused:
        floor.check(old, "scheme://host/")
    assert str(refused.value).startswith(f"scheme://host/: {floor.product} {old} is too old: {floor.oldest} is the oldest that has ")
    floor.check(new, "scheme://host/")
    floor.check("", "scheme://host/")


def test_floor_is_checked_before_duckdb_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdb.__version__", "1.4.9")
    with pytest.raises(ServerTooOld, match="to_arrow_reader"):
        dialects.connect("duckdb:///:memory:")
