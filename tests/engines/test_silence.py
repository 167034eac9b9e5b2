"""A server that says nothing holds nobody up: every wait on it ends by itself, and soon once the statement is cancelled.

Each test puts a proxy before a live server that falls silent in one stage: as a connection is opened, at the login, in a statement,
in the middle of a result, at a request to cancel.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

import dialects
from auditor.api.errors import http_status
from auditor.config import Audit, ConnectionSettings
from auditor.connections import connection
from auditor.errors import ServerSilent, StatementCancelled, StatementRefused, StatementTimeout, Unreachable
from auditor.model import Report, State
from auditor.run import audit_run
from dialects import Session, wire
from tests.durations import SetDurations
from tests.live import LiveEngine, engine_params
from tests.servers.proxy import Proxy, proxied
from tests.tables import make

PATIENCE = 60.0
"""Seconds after which a test that hangs fails."""

SILENCING = "'fall silent' = 'fall silent'"
SLOW = {"mysql": "SELECT SLEEP(600)", "postgres": "SELECT pg_sleep(600)", "redshift": "SELECT pg_sleep(600)"}

DRIVERS = [*engine_params("mysql", "postgres", "redshift"), pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow])]
"""An engine for each driver in a normal run."""

pytestmark = [pytest.mark.clock, pytest.mark.parametrize("engine", DRIVERS, indirect=True), pytest.mark.engines_in_turn]


@contextmanager
def open_proxy(engine: LiveEngine) -> Iterator[Proxy]:
    with proxied(engine.url) as found:
        found.url += f"{'&' if '?' in found.url else '?'}connect_timeout=1"
        found.silencing_text = SILENCING.encode()
        yield found


@pytest.fixture
def proxy(engine: LiveEngine, set_durations: SetDurations) -> Iterator[Proxy]:
    set_durations(silence_grace=0.5, cancel_grace=0.5)
    with open_proxy(engine) as found:
        yield found


def ended(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns or raises, in a thread so that the test fails where it hangs."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_result(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result(PATIENCE)


def connect(proxy: Proxy, statement_timeout: float = 1.0) -> Session:
    return dialects.connect(proxy.url, statement_timeout)


def test_connecting_to_a_silent_server_fails(engine: LiveEngine) -> None:
    """It accepts the connection and says nothing, or falls silent during the login, or while the session's limits are set."""
    stages = [(0, b""), (1, b""), (30, b""), (None, b"_timeout")]
    with ExitStack() as stack:
        proxies = [stack.enter_context(open_proxy(engine)) for _ in stages]
        for proxy, (said, text) in zip(proxies, stages, strict=True):
            proxy.allowed_at_login, proxy.silencing_text = said, text
        with ThreadPoolExecutor(len(stages)) as pool:
            errors = list(pool.map(lambda proxy: ended(lambda: connect(proxy)), proxies))
    for error, proxy in zip(errors, proxies, strict=True):
        assert isinstance(error, Unreachable), repr(error)
        sentence = f"{dialects.parse_url(proxy.url)}: no answer within 1 s while connecting; check host, port and network"
        assert str(error).startswith(sentence)
        assert error.retryable and http_status(error) == 502


def test_statement_that_is_never_answered_fails(proxy: Proxy) -> None:
    with closing(connect(proxy)) as session:
        error = ended(lambda: session.query(f"SELECT 1 WHERE {SILENCING}"))
    assert isinstance(error, ServerSilent), repr(error)
    assert "no answer within 1.5 s to a statement that the server itself should have ended after 1 s" in str(error)
    assert "127.0.0.1" in str(error) and error.retryable and http_status(error) == 504
    assert connection.is_worth_retrying(error, 0) and not connection.is_worth_retrying(error, 1)


def test_result_that_breaks_off_fails(proxy: Proxy, engine: LiveEngine) -> None:
    make(engine, "silence", [("id", dialects.Kind("integer")), ("v", dialects.Kind("text"))], [(i, "x" * 100) for i in range(2000)])
    proxy.allowed_after_text = 5000
    with closing(connect(proxy)) as session:
        session.begin()
        sql = f"SELECT v FROM {session.dialect.names.quote('silence')} WHERE {SILENCING}"
        assert isinstance(error := ended(lambda: list(session.stream(sql))), ServerSilent), repr(error)


def test_server_that_is_only_slow_may_take_its_time(proxy: Proxy, engine: LiveEngine) -> None:
    with closing(connect(proxy, statement_timeout=60.0)) as session:
        assert ended(lambda: len(session.query(SLOW[engine.dialect].replace("600", "1.2")))) == 1  # longer than a login may take
    with closing(connect(proxy)) as session:
        error = ended(lambda: session.query(SLOW[engine.dialect]))
        # MySQL's SLEEP() returns 1 when its time is up.
        assert isinstance(error, StatementTimeout) or error == [(1,)], "the server's own time limit comes first"


@pytest.mark.quick_for("accepts nothing more", "answers")
@pytest.mark.parametrize("server", ["answers", "says nothing more", "accepts nothing more"])
def test_cancelling_never_waits_for_the_server(proxy: Proxy, engine: LiveEngine, server: str) -> None:
    with closing(connect(proxy, statement_timeout=600.0)) as session:
        running = threading.Thread(target=lambda: caught.append(ended(lambda: session.query(SLOW[engine.dialect]))))
        caught: list[Any] = []
        running.start()
        time.sleep(0.3)  # else it is cancelled before it runs, which has no effect
        if server != "answers":
            proxy.fall_silent()
            proxy.refuses = server == "accepts nothing more"
        began = time.monotonic()
        session.cancel()
        assert time.monotonic() - began < 0.9, "cancelling waited for the server, which has a second to let a connection in"
        running.join(PATIENCE)
    assert caught, "the statement goes on"
    # MySQL's SLEEP() returns 1 when it is cancelled.
    assert isinstance(caught[0], StatementCancelled) or (server == "answers" and caught[0] == [(1,)]), repr(caught[0])


def test_cancelling_without_a_statement_has_no_effect(proxy: Proxy) -> None:
    with closing(connect(proxy)) as session:
        opened = proxy.opened
        session.cancel()
        assert session.query("SELECT 1 + 1") == [(2,)]
    assert proxy.opened == opened


@pytest.fixture
def impatient(set_durations: SetDurations) -> None:
    set_durations(connection_retry_waits=(0.1,), connecting_poll=0.02)


def audit(engine: LiveEngine, proxy: Proxy, **limits: Any) -> Report:
    make(engine, "silence_run", [("id", dialects.Kind("integer"))], [(i,) for i in range(20)], key=["id"])
    connections = {"source": {"url": proxy.url, "limits": limits}, "target": {"url": engine.url}}
    ends = {side: {"connection": side, "table": "silence_run"} for side in connections}
    settings = {name: ConnectionSettings.model_validate(one) for name, one in connections.items()}
    return audit_run.run("silence", Audit.model_validate({**ends, "key": ["id"]}), settings)


@pytest.mark.slow_on("mysql")  # what a run makes of errors that tests above see from each driver
@pytest.mark.slow_on("redshift")
@pytest.mark.usefixtures("impatient")
def test_run_against_a_silent_server_fails_and_names_it(proxy: Proxy, engine: LiveEngine) -> None:
    proxy.silencing_text = b"row_count"
    report = ended(lambda: audit(engine, proxy, statement_timeout=1))
    assert isinstance(report, Report), repr(report)
    assert report.state is State.FAILED and report.retries == 1, report.reasons
    assert report.reasons[0].startswith("source: ") and "no answer within 1.5 s" in report.reasons[0]


@pytest.mark.slow_on("mysql")
@pytest.mark.slow_on("redshift")
@pytest.mark.usefixtures("impatient")
def test_first_connection_is_retried(proxy: Proxy, engine: LiveEngine, set_durations: SetDurations) -> None:
    """A server that is just starting refuses connections, or says nothing yet."""
    set_durations(connection_retry_waits=(0.1,) * 50)
    proxy.refuses = True
    threading.Timer(0.5, lambda: setattr(proxy, "refuses", False)).start()
    report = ended(lambda: audit(engine, proxy))
    assert isinstance(report, Report), repr(report)
    assert (report.state, str(report.verdict)) == (State.DONE, "match"), report.reasons
    assert report.retries >= 1


ENDLESS = {
    "mysql": "SELECT REPEAT('x', 4000000), SLEEP(n) FROM (SELECT 0 AS n"
    " UNION ALL SELECT 0 UNION ALL SELECT 0 UNION ALL SELECT 20) AS rows_of",
    "postgres": "SELECT repeat('x', 4000000), pg_sleep(n) FROM (VALUES (0), (0), (0), (20)) AS rows_of (n)",
}
"""Statements whose answer is 12 MB at once, and then long under way."""


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.few
def test_answer_that_no_memory_should_hold_is_not_read(engine: LiveEngine, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGEST_ANSWER", 8 << 20)
    with closing(dialects.connect(engine.url)) as session:
        sql = ENDLESS["mysql" if engine.dialect == "mysql" else "postgres"]
        session.begin()
        with pytest.raises(StatementRefused, match="the server sent more than 8 MiB in one answer"):
            list(session.stream(sql)) if streamed else session.query(sql)
