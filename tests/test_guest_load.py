"""A real load holds a real gate: sessions that run statements, a heartbeat that is late, a server that goes away and comes back.

The stand-in for Redshift has no queues: a view takes their place, so the statement that counts who waits is run, and nothing
proves that Redshift's own table says what its manual promises. Replicas are played by what their servers would answer.
"""

from __future__ import annotations

import datetime as dt
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

import dialects
from auditor import guest
from auditor.config import Connection
from auditor.errors import AccessDenied, GuestWaited, PlanError
from dialects import Kind, Place
from dialects._session import DriverSession
from tests import tables
from tests.engines import LiveEngine, engine_params
from tests.redshift_allowed import violations
from tests.servers import mysql, postgres
from tests.test_guest import Told, until

SLEEPS = {
    "mysql": (mysql.connect, "SELECT SLEEP(30)", "threads_running"),
    "postgres": (postgres.connect, "SELECT pg_sleep(30)", "active_sessions"),
}
"""How other people's sessions are opened and kept busy, by dialect, and the measure that sees them."""


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(guest, "PERIOD", 0.2)
    yield
    guest.close_all()
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("load of")], "no reading is under way")


class Others:
    """Sessions of other people that run a long statement each, until they are ended."""

    def __init__(self, engine: LiveEngine, count: int) -> None:
        opened, self._sleep, self.measure = SLEEPS[engine.dialect]
        self._engine = engine
        self._connections: list[Any] = [opened(engine.url) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count)

    def __enter__(self) -> Others:
        for connection in self._connections:
            self._pool.submit(self._run, connection)
        return self

    def _run(self, connection: Any) -> None:
        with suppress(Exception):  # it is killed
            connection.cursor().execute(self._sleep)

    def end(self) -> None:
        """End their statements."""
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


def limited(url: str, **limits: Any) -> Connection:
    return Connection.model_validate({"url": url, "limits": limits})


def measured(engine: LiveEngine, *names: str, own: int = 0) -> dict[str, float]:
    with closing(dialects.connect(engine.url)) as session:
        return session.dialect.load(session, names, own)


@only("mysql", "mariadb", "postgres")
def test_busy_sessions_hold_the_gate_until_they_end(engine: LiveEngine) -> None:
    _, _, measure = SLEEPS[engine.dialect]
    idle = measured(engine, measure)[measure]
    limit = int(idle) + 2
    gate = guest.gate("shop", limited(engine.url, pause_when={measure: limit}))
    told = Told()
    with Others(engine, 4) as others:
        until(lambda: measured(engine, measure)[measure] == idle + 4, "four sessions more are busy")
        with ThreadPoolExecutor(1) as pool:

            def entered() -> float:
                with gate.statement(told, threading.Event()):
                    return time.monotonic()

            waiter = pool.submit(entered)
            until(lambda: told.sentences, "it waits")
            time.sleep(0.5)
            assert not waiter.done()
            ended = time.monotonic()
            others.end()
            assert waiter.result(10) > ended
    name = "Threads_running is" if measure == "threads_running" else ""
    assert (
        told.sentences[0].startswith(f"waits: {name}")
        and f"{idle + 4:,.0f}" in told.sentences[0]
        and f"more than {limit}" in told.sentences[0]
    )
    assert told.sentences[-1] == ""


@only("mysql", "mariadb", "postgres")
def test_our_own_statements_are_no_load(engine: LiveEngine) -> None:
    """MySQL's are subtracted by their number; PostgreSQL's are known by their name."""
    _, sleep, measure = SLEEPS[engine.dialect]
    idle = measured(engine, measure)[measure]
    gate = guest.gate("shop", limited(engine.url, pause_when={measure: max(1, int(idle))}))
    told, inside = Told(), threading.Event()

    def run() -> None:
        with gate.statement(told, threading.Event()), closing(dialects.connect(engine.url)) as session:
            inside.set()
            session.query(sleep.replace("30", "1.5"))

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            inside.clear()
            pool.submit(run)
            assert inside.wait(10)
            time.sleep(0.3)
    assert told.sentences == []


@only("mysql", "mariadb", "postgres")
def test_a_server_that_replicates_nothing_is_not_behind(engine: LiveEngine) -> None:
    assert measured(engine, "lag") == {"lag": 0.0}


class FakeReplica(DriverSession):
    """Answers SHOW REPLICA STATUS as given."""

    def __init__(self, dialect: dialects.Dialect, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        super().__init__(dialect, "fake", None, lambda _: None, lambda: 0)
        self.names, self.rows, self.sent = names, rows, ""

    def _asked(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        self.sent = sql
        return list(self.names), [tuple(row) for row in self.rows]

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        raise NotImplementedError

    def cancel(self) -> None:
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
def test_a_replica_says_how_far_it_is_behind(version: str, column: str, statement: str, rows: list[Any], lag: float) -> None:
    session = FakeReplica(dialects.get("mysql").for_server(version), ["Channel_Name", column], rows)
    assert session.dialect.load(session, ["lag"]) == {"lag": lag}
    assert session.sent == statement


def test_an_engine_does_not_make_a_measure_up() -> None:
    for name in dialects.names():
        with pytest.raises(LookupError, match=f"{name} cannot say tides"):
            dialects.get(name).load(FakeReplica(dialects.get(name), [], []), ["tides"])


@pytest.mark.parametrize("kind", [Kind("timestamp", scale=6), Kind("timestamptz", scale=6)], ids=str)
def test_a_heartbeat_is_as_old_as_it_is(engine: LiveEngine, kind: Kind) -> None:
    began, moment = time.monotonic(), dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(seconds=90)
    tables.make(engine, "beats", [("id", Kind("integer")), ("at", kind)], [(1, moment), (2, moment - dt.timedelta(days=1))])
    tables.make(engine, "no_beats", [("at", kind)], [])
    with closing(dialects.connect(engine.url)) as session:
        assert 88 < session.dialect.heartbeat_age(session, Place(("beats",)), "at") < 92 + time.monotonic() - began
        assert session.dialect.heartbeat_age(session, Place(("no_beats",)), "at") == math.inf
    if engine.dialect == "redshift":
        assert violations(f'SELECT {session.dialect.seconds_since("MAX(c)")} AS seconds FROM "public"."t"') == []


@only("mysql", "mariadb", "postgres", "redshift")
def test_a_late_heartbeat_holds_the_gate(engine: LiveEngine) -> None:
    late = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(seconds=640)
    column = [("at", Kind("timestamp", scale=6))]
    tables.make(engine, "pulse", column, [(late,)])
    heart = {"lag": "60s", "heartbeat": {"table": "pulse", "column": "at"}, "give_up": 0.5}
    gate, told = guest.gate("shop", limited(engine.url, pause_when=heart)), Told()
    with (
        pytest.raises(GuestWaited, match=r"the heartbeat is 6\d\d s behind, which is more than 60 s"),
        gate.statement(told, threading.Event()),
    ):
        pytest.fail("the heartbeat is late")
    tables.make(engine, "pulse", column, [(dt.datetime.now(dt.UTC).replace(tzinfo=None),)])
    time.sleep(guest.PERIOD)
    with gate.statement(told, threading.Event()):
        assert told.sentences[-1].startswith("waits: the heartbeat")
    tables.make(engine, "pulse", column, [(dt.datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(hours=5),)])
    time.sleep(guest.PERIOD)
    with pytest.raises(PlanError, match=r"pulse.at lies 1\d,\d{3} s in the future; it has to be written in UTC"):
        with gate.statement(told, threading.Event()):
            pytest.fail("nobody knows how late it is")


@only("postgres")
def test_a_user_who_sees_nobody_is_told_so(engine: LiveEngine) -> None:
    tables.execute(engine, "DROP ROLE IF EXISTS auditor_blind", "CREATE ROLE auditor_blind LOGIN PASSWORD 'blind'")
    parts = urlsplit(engine.url)
    url = parts._replace(netloc=f"auditor_blind:blind@{parts.hostname}:{parts.port}").geturl()
    gate = guest.gate("blind", limited(url, pause_when={"active_sessions": 5}))
    with pytest.raises(AccessDenied, match="pg_read_all_stats"), gate.statement(Told(), threading.Event()):
        pytest.fail("it would count nobody")
    tables.execute(engine, "GRANT pg_read_all_stats TO auditor_blind")
    time.sleep(guest.PERIOD)
    with gate.statement(Told(), threading.Event()):
        pass
    guest.close_all()
    tables.execute(engine, "DROP ROLE auditor_blind")


@only("redshift")
def test_statements_in_redshifts_queues_hold_the_gate(engine: LiveEngine) -> None:
    states = {(6, "Running"): 3, (6, "QueuedWaiting"): 2, (7, "Queued"): 1, (3, "Queued"): 9}
    rows = " UNION ALL ".join(
        f"SELECT {queue}, CAST('{state}' AS CHAR(16)), {n}" for (queue, state), count in states.items() for n in range(count)
    )
    tables.execute(engine, f"CREATE VIEW stv_wlm_query_state (service_class, state, query) AS {rows}")
    try:
        assert measured(engine, "queued") == {"queued": 3.0}
        gate = guest.gate("shop", limited(engine.url, pause_when={"queued": 2, "give_up": 0.3}))
        with pytest.raises(GuestWaited, match="3 statements wait in the queues, which is more than 2"):
            with gate.statement(Told(), threading.Event()):
                pytest.fail("three wait")
    finally:
        tables.execute(engine, "DROP VIEW stv_wlm_query_state")


class Wire:
    """A way to a server that can be cut, so that the server seems to go down, and be mended."""

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
        """The server is gone."""
        self._cut.set()

    def mend(self) -> None:
        """The server is back."""
        self._cut.clear()

    def close(self) -> None:
        """Stop for good."""
        self._closed.set()
        for thread in self._ends:
            thread.join()
        self._socket.close()


@only("mysql", "mariadb", "postgres")
def test_a_server_that_restarts_is_waited_for(engine: LiveEngine) -> None:
    """The server's going and coming back is played by the wire to it; its sessions end as they would."""
    _, _, measure = SLEEPS[engine.dialect]
    with closing(Wire(engine.url)) as wire:
        gate, told = guest.gate("far", limited(wire.url, pause_when={measure: 50, "give_up": 30})), Told()
        with gate.statement(told, threading.Event()):
            pass
        wire.cut()
        time.sleep(guest.PERIOD)
        with ThreadPoolExecutor(1) as pool:
            waiter = pool.submit(lambda: _pass(gate, told))
            until(lambda: told.sentences, "it waits")
            assert told.sentences[0].startswith("waits: the server cannot be asked how busy it is: ")
            time.sleep(0.5)
            assert not waiter.done()
            wire.mend()
            waiter.result(20)
        assert told.sentences[-1] == ""
        gate.close()


def _pass(gate: guest.Gate, told: Callable[[str], None]) -> None:
    with gate.statement(told, threading.Event()):
        pass
