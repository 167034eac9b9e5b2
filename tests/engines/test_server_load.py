"""Real server load pauses the throttle: busy sessions, a late heartbeat, a server that restarts.

The Redshift stand-in has no queues; a view replaces them, so the counting statement runs, but its result on a real Redshift is not tested.
Replicas are simulated by the responses their servers would give.
"""

from __future__ import annotations

import datetime as dt
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

import dialects
from auditor.config import ConnectionSettings
from auditor.connections import throttle
from auditor.durations import durations
from auditor.errors import AccessDenied, DatabaseBusy, PlanError
from dialects import Kind, Place, Session
from dialects.mysql.dialect import MySQL
from dialects.session import DriverSession
from tests import tables
from tests.durations import SetDurations
from tests.live import LiveEngine, engine_params
from tests.servers import mysql, postgres
from tests.servers.redshift_allowed import violations
from tests.unit.test_throttle import WaitReasons, wait_until

SLEEPS = {
    "mysql": (mysql.connect, "SELECT SLEEP(30)", "threads_running"),
    "postgres": (postgres.connect, "SELECT pg_sleep(30)", "active_sessions"),
}
"""By dialect: how to connect, a statement that keeps a session busy, and the load measure that counts such sessions."""
pytestmark = pytest.mark.clock

HOUR = dt.timedelta(hours=1)


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


@pytest.fixture(autouse=True)
def short_period(set_durations: SetDurations) -> Iterator[None]:
    set_durations(load_probe=0.2)
    yield
    throttle.close_all()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("load of")], "no load probe is running")


class BusySessions:
    """Sessions outside the auditor that each run a long statement until it is cancelled."""

    def __init__(self, engine: LiveEngine, count: int) -> None:
        opened, self._sleep, self.measure = SLEEPS[engine.dialect]
        self._engine = engine
        self._connections: list[Any] = [opened(engine.url) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count)

    def __enter__(self) -> BusySessions:
        for connection in self._connections:
            self._pool.submit(self._run, connection)
        return self

    def _run(self, connection: Any) -> None:
        with suppress(Exception):  # the statement is killed
            connection.cursor().execute(self._sleep)

    def end(self) -> None:
        """Cancel the statements."""
        if self._engine.dialect == "mysql":
            for connection in self._connections:
                tables.execute(self._engine, f"KILL QUERY {connection.thread_id()}")
        else:
            for connection in self._connections:
                connection.cancel()

    def __exit__(self, *_: object) -> None:
        self.end()
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()


def make_settings(url: str, **limits: Any) -> ConnectionSettings:
    return ConnectionSettings.model_validate({"url": url, "limits": limits})


def probe_load(engine: LiveEngine, *names: str, own: int = 0) -> dict[str, float]:
    with closing(dialects.connect(engine.url)) as session:
        return session.dialect.server.server_load(session, names, own)


@pytest.mark.quick_for("mysql", "postgres")
@pytest.mark.alone
@only("mysql", "mariadb", "postgres")
def test_throttle_waits_until_busy_sessions_end(engine: LiveEngine) -> None:
    _, _, measure = SLEEPS[engine.dialect]
    idle = probe_load(engine, measure)[measure]
    limit = int(idle) + 2
    gate = throttle.get_throttle("shop", make_settings(engine.url, pause_when={measure: limit}))
    reasons = WaitReasons()
    with BusySessions(engine, 4) as others:
        wait_until(lambda: probe_load(engine, measure)[measure] == idle + 4, "four more sessions are busy")
        with ThreadPoolExecutor(1) as pool:

            def entered() -> float:
                with gate.statement(reasons, threading.Event()):
                    return time.monotonic()

            waiter = pool.submit(entered)
            wait_until(lambda: reasons.sentences, "the throttle reports that it waits")
            time.sleep(0.5)
            assert not waiter.done()
            ended = time.monotonic()
            others.end()
            assert waiter.result(10) > ended
    name = "Threads_running is" if measure == "threads_running" else ""
    assert (
        reasons.sentences[0].startswith(f"waits: {name}")
        and f"{idle + 4:,.0f}" in reasons.sentences[0]
        and f"more than {limit}" in reasons.sentences[0]
    )
    assert reasons.sentences[-1] == ""


@pytest.mark.quick_for("mariadb")
@pytest.mark.alone
@only("mysql", "mariadb", "postgres")
def test_own_statements_do_not_count_as_load(engine: LiveEngine) -> None:
    """On MySQL they are subtracted by number; on PostgreSQL they are recognised by their application name."""
    _, sleep, measure = SLEEPS[engine.dialect]
    idle = probe_load(engine, measure)[measure]
    gate = throttle.get_throttle("shop", make_settings(engine.url, pause_when={measure: max(1, int(idle))}))
    reasons, inside = WaitReasons(), threading.Event()

    def run() -> None:
        with gate.statement(reasons, threading.Event()), closing(dialects.connect(engine.url)) as session:
            inside.set()
            session.query(sleep.replace("30", "1.5"))

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            inside.clear()
            pool.submit(run)
            assert inside.wait(10)
            time.sleep(0.3)
    assert reasons.sentences == []


@only("mysql", "mariadb", "postgres")
def test_server_without_replication_has_no_lag(engine: LiveEngine) -> None:
    assert probe_load(engine, "lag") == {"lag": 0.0}


AURORA = (
    "CREATE FUNCTION aurora_db_instance_identifier() RETURNS TEXT LANGUAGE sql AS $$SELECT '{here}'$$",
    "CREATE FUNCTION aurora_replica_status(OUT server_id TEXT, OUT session_id TEXT, OUT replica_lag_in_msec FLOAT) RETURNS SETOF RECORD"
    " LANGUAGE sql AS $$VALUES ('writer', 'MASTER_SESSION_ID', 77.0::float), ('reader', '6ab1', 2500.0), ('other', '6ab2', 90000.0)$$",
)
"""Functions of Amazon Aurora that tell how far each reader is behind."""


@only("postgres")
@pytest.mark.parametrize(("here", "lag"), [("reader", 2.5), ("writer", 0.0), ("joining", math.inf)])
def test_aurora_tells_the_lag_of_its_readers(engine: LiveEngine, here: str, lag: float) -> None:
    tables.execute(engine, *(statement.replace("{here}", here) for statement in AURORA))
    try:
        assert probe_load(engine, "lag") == {"lag": lag}
    finally:
        tables.execute(engine, "DROP FUNCTION aurora_db_instance_identifier()", "DROP FUNCTION aurora_replica_status()")


@only("mysql")
@pytest.mark.parametrize(("here", "lag"), [("reader", 2.5), ("writer", 0.0), ("joining", math.inf)])
def test_aurora_for_mysql_tells_the_lag_of_its_readers(engine: LiveEngine, here: str, lag: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a table in the place of the server's own, which nobody can create elsewhere, with the columns and values of the manual."""
    columns = "server_id VARCHAR(100), session_id VARCHAR(100), replica_lag_in_milliseconds DOUBLE"
    rows = "('writer', 'MASTER_SESSION_ID', 77), ('reader', '6ab1', 2500), ('other', '6ab2', 90000)"
    tables.execute(
        engine, "DROP TABLE IF EXISTS host_status", f"CREATE TABLE host_status ({columns})", f"INSERT INTO host_status VALUES {rows}"
    )
    places = {
        "information_schema.replica_host_status": "host_status",
        "@@aurora_server_id": f"'{here}'",
        "LIKE 'aurora_server_id'": "LIKE 'server_id'",
    }
    assert probe_load(engine, "lag") == {"lag": 0.0}
    rendered = MySQL.catalogue_query

    def on_aurora(dialect: MySQL, name: str, fragments: Mapping[str, str]) -> str:
        sql = rendered(dialect, name, fragments)
        for real, stand_in in places.items():
            sql = sql.replace(real, stand_in)
        return sql

    monkeypatch.setattr(MySQL, "catalogue_query", on_aurora)
    assert probe_load(engine, "lag") == {"lag": lag}


class FakeReplica(DriverSession):
    """A session that answers SHOW REPLICA STATUS with the given rows."""

    def __init__(self, dialect: dialects.Dialect, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        Session.__init__(self, dialect, "fake")  # there is no connection
        self.names, self.rows, self.sent = names, rows, ""

    def _fetch(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        if sql.startswith("SHOW GLOBAL VARIABLES"):
            return [], []
        self.sent = sql
        return list(self.names), [tuple(row) for row in self.rows]

    def fetch_batches(self, sql: str) -> Generator[list[tuple[Any, ...]]]:
        raise NotImplementedError

    def cancel_statement(self) -> str:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("rows", "lag"),
    [
        ([], 0),
        ([("a", 0)], 0),
        ([("a", 7)], 7),
        ([("a", "12"), ("b", 3)], 12),
        ([("a", None)], math.inf),
        ([("a", 2), ("b", None)], math.inf),
    ],
)
@pytest.mark.parametrize(
    ("version", "column", "statement"),
    [("9.4.0", "Seconds_Behind_Source", "SHOW REPLICA STATUS"), ("10.11.6-MariaDB", "Seconds_Behind_Master", "SHOW ALL SLAVES STATUS")],
)
def test_lag_of_a_replica_is_its_slowest_channel(version: str, column: str, statement: str, rows: list[Any], lag: float) -> None:
    session = FakeReplica(dialects.get("mysql").for_server(version), ["Channel_Name", column], rows)
    assert session.dialect.server.server_load(session, ["lag"]) == {"lag": lag}
    assert session.sent == statement


def test_unknown_load_measure_is_an_error() -> None:
    for name in dialects.names():
        with pytest.raises(LookupError, match=f"{name} does not report tides"):
            dialects.get(name).server.server_load(FakeReplica(dialects.get(name), [], []), ["tides"])


@pytest.mark.parametrize("kind", [Kind("timestamp", scale=6), Kind("timestamptz", scale=6)], ids=str)
@pytest.mark.few
def test_heartbeat_age_is_the_age_of_the_newest_beat(engine: LiveEngine, kind: Kind) -> None:
    began, moment = time.monotonic(), dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(seconds=90)
    columns = [("id", Kind("integer")), ("at", kind), ("task", Kind("text"))]
    tables.make(
        engine, "beats", columns, [(1, moment, "mine"), (2, moment - dt.timedelta(days=1), "mine"), (3, moment + HOUR, "another's")]
    )
    tables.make(engine, "no_beats", [("at", kind)], [])
    with closing(dialects.connect(engine.url)) as session:
        mine, late = ({"task": "mine"}, {"task": "another's"})
        assert 88 < session.dialect.server.heartbeat_age(session, Place(("beats",)), "at", mine) < 92 + time.monotonic() - began
        assert session.dialect.server.heartbeat_age(session, Place(("beats",)), "at", late) < -3500
        assert session.dialect.server.heartbeat_age(session, Place(("beats",)), "at", {"task": "no one's"}) == math.inf
        assert session.dialect.server.heartbeat_age(session, Place(("beats",)), "at") < -3500, "all rows count"
        assert session.dialect.server.heartbeat_age(session, Place(("no_beats",)), "at") == math.inf
    if engine.dialect == "redshift":
        assert violations(f'SELECT {session.dialect.times.seconds_since("MAX(c)")} AS seconds FROM "public"."t"') == []


@pytest.mark.quick_for("mysql", "postgres")
@only("mysql", "mariadb", "postgres", "redshift")
def test_throttle_waits_while_the_heartbeat_is_late(engine: LiveEngine) -> None:
    late_time = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(seconds=640)
    column = [("at", Kind("timestamp", scale=6))]
    tables.make(engine, "pulse", column, [(late_time,)])
    limits = {"lag": "60s", "heartbeat": {"table": "pulse", "column": "at"}, "give_up": 0.5}
    gate, reasons = throttle.get_throttle("shop", make_settings(engine.url, pause_when=limits)), WaitReasons()
    with (
        pytest.raises(DatabaseBusy, match=r"the heartbeat is 6\d\d s behind, which is more than 60 s"),
        gate.statement(reasons, threading.Event()),
    ):
        pytest.fail("admitted although the heartbeat is late")
    tables.make(engine, "pulse", column, [(dt.datetime.now(dt.UTC).replace(tzinfo=None),)])
    time.sleep(durations().load_probe)
    with gate.statement(reasons, threading.Event()):
        assert reasons.sentences[-1].startswith("waits: the heartbeat")
    tables.make(engine, "pulse", column, [(dt.datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(hours=5),)])
    time.sleep(durations().load_probe)
    with pytest.raises(PlanError, match=r"pulse.at lies 1\d,\d{3} s in the future; it has to be written in UTC"):
        with gate.statement(reasons, threading.Event()):
            pytest.fail("admitted although the heartbeat lies in the future")


@only("postgres")
def test_user_who_cannot_see_other_sessions_gets_an_error(engine: LiveEngine) -> None:
    tables.execute(engine, "DROP ROLE IF EXISTS auditor_blind", "CREATE ROLE auditor_blind LOGIN PASSWORD 'blind'")
    parts = urlsplit(engine.url)
    url = parts._replace(netloc=f"auditor_blind:blind@{parts.hostname}:{parts.port}").geturl()
    gate = throttle.get_throttle("blind", make_settings(url, pause_when={"active_sessions": 5}))
    with pytest.raises(AccessDenied, match="pg_read_all_stats"), gate.statement(WaitReasons(), threading.Event()):
        pytest.fail("admitted although the user cannot see other sessions")
    tables.execute(engine, "GRANT pg_read_all_stats TO auditor_blind")
    time.sleep(durations().load_probe)
    with gate.statement(WaitReasons(), threading.Event()):
        pass
    throttle.close_all()
    tables.execute(engine, "DROP ROLE auditor_blind")


@only("redshift")
def test_throttle_waits_while_statements_are_queued_on_redshift(engine: LiveEngine) -> None:
    states = {("running", "minute"): 3, ("queued", "minute"): 3, ("success", "hour"): 9, ("queued", "week"): 9}
    rows = " UNION ALL ".join(
        f"SELECT CAST('{state}' AS CHAR(10)), GETDATE() - INTERVAL '1 {age}', {n}"
        for (state, age), count in states.items()
        for n in range(count)
    )
    tables.execute(engine, f"CREATE VIEW sys_query_history (status, start_time, query_id) AS {rows}")
    try:
        assert probe_load(engine, "queued") == {"queued": 3.0}
        gate = throttle.get_throttle("shop", make_settings(engine.url, pause_when={"queued": 2, "give_up": 0.3}))
        with pytest.raises(DatabaseBusy, match="3 statements wait in the queues, which is more than 2"):
            with gate.statement(WaitReasons(), threading.Event()):
                pytest.fail("admitted although three statements are queued")
    finally:
        tables.execute(engine, "DROP VIEW sys_query_history")


class CuttableProxy:
    """A TCP proxy to a server that can be cut and restored, so that the server appears to go down and come back."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._there = (str(parts.hostname), int(parts.port or 0))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._port = self._socket.getsockname()[1]
        account = f"{parts.username}:{parts.password}" if parts.password else str(parts.username)
        self.url = parts._replace(netloc=f"{account}@127.0.0.1:{self._port}").geturl()
        self._cut, self._closed = threading.Event(), threading.Event()
        self._ends: list[threading.Thread] = [threading.Thread(target=self._listen)]
        self._ends[0].start()

    def _listen(self) -> None:
        while not self._closed.is_set():
            if not select.select([self._socket], [], [], 0.05)[0]:
                continue
            here = self._socket.accept()[0]
            self._ends.append(threading.Thread(target=self._carry, args=(here,)))
            self._ends[-1].start()

    def _carry(self, here: socket.socket) -> None:
        with here, suppress(OSError):
            if self._cut.is_set():
                return
            with socket.create_connection(self._there) as there:
                other = {here: there, there: here}
                while not self._cut.is_set() and not self._closed.is_set():
                    for ready in select.select([here, there], [], [], 0.05)[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        other[ready].sendall(data)

    def cut(self) -> None:
        """Drop and refuse all connections."""
        self._cut.set()

    def restore(self) -> None:
        """Accept connections again."""
        self._cut.clear()

    def close(self) -> None:
        """Stop the proxy."""
        self._closed.set()
        for thread in self._ends:
            thread.join()
        self._socket.close()


@pytest.mark.quick_for("postgres")
@only("mysql", "mariadb", "postgres")
@pytest.mark.slow_on("mariadb")  # whose driver is MySQL's
def test_throttle_waits_for_a_restarting_server(engine: LiveEngine) -> None:
    """The proxy simulates the restart; sessions break as they would."""
    _, _, measure = SLEEPS[engine.dialect]
    with closing(CuttableProxy(engine.url)) as proxy:
        gate, reasons = throttle.get_throttle("far", make_settings(proxy.url, pause_when={measure: 50, "give_up": 30})), WaitReasons()
        with gate.statement(reasons, threading.Event()):
            pass
        proxy.cut()
        time.sleep(durations().load_probe)
        with ThreadPoolExecutor(1) as pool:
            waiter = pool.submit(lambda: _run_statement(gate, reasons))
            wait_until(lambda: reasons.sentences, "the throttle reports that it waits")
            assert reasons.sentences[0].startswith("waits: the load of the server cannot be probed: ")
            time.sleep(0.5)
            assert not waiter.done()
            proxy.restore()
            waiter.result(20)
        assert reasons.sentences[-1] == ""
        gate.close()


def _run_statement(gate: throttle.Throttle, reasons: Callable[[str], None]) -> None:
    with gate.statement(reasons, threading.Event()):
        pass
