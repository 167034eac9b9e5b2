"""The throttle of a database: its slots and waits. The load is simulated here; tests/engines/test_server_load.py uses real servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from auditor.config import ConnectionSettings
from auditor.connections import throttle
from auditor.connections.throttle import Throttle
from auditor.durations import durations
from auditor.errors import AccessDenied, AuditorError, DatabaseBusy, PlanError, StatementCancelled, Unreachable
from tests.durations import SetDurations

BEATS = {"lag": 5, "heartbeat": {"table": "beats", "column": "at"}}


class WaitReasons:
    """Record the reasons to wait that a throttle reports."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.sentences.append(sentence)


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30.0, *, every: float = 0.01) -> None:
    """Poll ``every`` so many seconds until the condition holds, or fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting until {what}"
        time.sleep(every)


class Load:
    """A simulated load probe: returns a reason to wait, or raises an error."""

    def __init__(self) -> None:
        self.reason = ""
        self.error: AuditorError | None = None
        self.probes: list[int] = []

    def __call__(self, session: object, name: str, connection: ConnectionSettings, own: int) -> str:
        self.probes.append(own)
        if self.error:
            raise self.error
        return self.reason


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> Iterator[Load]:
    simulated = Load()
    monkeypatch.setattr(throttle, "reason_of_load", simulated)
    set_durations(load_probe=0.1)
    yield simulated
    throttle.close_all()


def connection(**limits: object) -> ConnectionSettings:
    return ConnectionSettings.model_validate({"url": "duckdb://", "limits": limits})


def pausing(give_up: float = 60.0, **limits: object) -> ConnectionSettings:
    return connection(pause_when={**BEATS, "give_up": give_up}, **limits)


class Statement:
    """A thread that holds a slot of a throttle until ``leave`` is set."""

    def __init__(self, db_throttle: Throttle, pool: ThreadPoolExecutor) -> None:
        self.reasons, self.stopped = WaitReasons(), threading.Event()
        self.entered, self.leave = threading.Event(), threading.Event()
        self.ended: Future[None] = pool.submit(self._run, db_throttle)

    def _run(self, db_throttle: Throttle) -> None:
        with db_throttle.statement(self.reasons, self.stopped):
            self.entered.set()
            assert self.leave.wait(60)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as threads:
        yield threads


def test_no_statement_waits_without_limits(pool: ThreadPoolExecutor) -> None:
    db_throttle = Throttle("free", connection())
    statements = [Statement(db_throttle, pool) for _ in range(8)]
    for one in statements:
        assert one.entered.wait(20)
        one.leave.set()
    assert not any(one.reasons.sentences for one in statements)


def test_slots_are_granted_in_request_order(pool: ThreadPoolExecutor) -> None:
    db_throttle = Throttle("shop", connection(statements=2))
    statements: list[Statement] = []
    for number in range(6):
        statements.append(Statement(db_throttle, pool))
        wait_until(lambda one=statements[-1]: one.entered.is_set() or one.reasons.sentences, f"statement {number} enters or waits")  # type: ignore[misc]
    assert [one.entered.is_set() for one in statements] == [True, True, False, False, False, False]
    assert statements[2].reasons.sentences == ["waits for one of 2 statements at once"]
    for number in range(4):
        statements[number].leave.set()
        assert statements[number + 2].entered.wait(20)
        assert not any(one.entered.is_set() for one in statements[number + 3 :])
    for one in statements:
        one.leave.set()
        one.ended.result(20)
    assert [one.reasons.sentences[1:] for one in statements[2:]] == [[""]] * 4
    assert not db_throttle.is_in_use()


def test_nested_statement_takes_no_second_slot() -> None:
    db_throttle = Throttle("shop", connection(statements=1))
    reasons = WaitReasons()
    with db_throttle.statement(reasons, threading.Event()), db_throttle.statement(reasons, threading.Event()):
        with db_throttle.statement(reasons, threading.Event()):
            assert db_throttle.is_in_use()
    assert not db_throttle.is_in_use()
    assert reasons.sentences == []


def test_slot_is_released_after_an_error(pool: ThreadPoolExecutor) -> None:
    db_throttle = Throttle("shop", connection(statements=1))
    with pytest.raises(ZeroDivisionError), db_throttle.statement(WaitReasons(), threading.Event()):
        raise ZeroDivisionError

    def fail(_: str) -> None:
        raise ZeroDivisionError

    first = Statement(db_throttle, pool)
    assert first.entered.wait(20)
    with pytest.raises(ZeroDivisionError), db_throttle.statement(fail, threading.Event()):
        pytest.fail("a statement was admitted without a free slot")
    first.leave.set()
    first.ended.result(20)
    assert not db_throttle.is_in_use()


@pytest.mark.parametrize("how", ["slots", "load"])
def test_waiting_statement_is_cancelled_immediately(how: str, load: Load, pool: ThreadPoolExecutor, set_durations: SetDurations) -> None:
    load.reason = "Threads_running is 61, and more than 50" if how == "load" else ""
    set_durations(load_probe=60.0)
    db_throttle = Throttle("shop", pausing() if how == "load" else connection(statements=1))
    holder = Statement(db_throttle, pool) if how == "slots" else None
    if holder:
        assert holder.entered.wait(20)
    waiter = Statement(db_throttle, pool)
    wait_until(lambda: waiter.reasons.sentences, "the statement waits")
    waiter.stopped.set()
    with pytest.raises(StatementCancelled):
        waiter.ended.result(15)  # while the slot is held for a minute, and the load is not looked at again for a minute
    if holder:
        holder.leave.set()
        holder.ended.result(20)
    assert not db_throttle.is_in_use()


def test_load_pauses_all_statements_and_is_probed_once_per_period(load: Load, pool: ThreadPoolExecutor) -> None:
    load.reason = "Threads_running is 61, and more than 50"
    db_throttle = Throttle("shop", pausing())
    statements = [Statement(db_throttle, pool) for _ in range(6)]
    wait_until(lambda: all(one.reasons.sentences for one in statements), "all statements wait")
    began, before = time.monotonic(), len(load.probes)
    load.reason = "Threads_running is 70, and more than 50"
    wait_until(lambda: all(len(one.reasons.sentences) == 2 for one in statements), "all report the new load")
    time.sleep(0.3)
    assert len(load.probes) - before <= (time.monotonic() - began) / durations().load_probe + 1
    assert not any(one.entered.is_set() for one in statements)
    load.reason = ""
    for one in statements:
        assert one.entered.wait(20)
        one.leave.set()
        one.ended.result(20)
    expected = ["waits: Threads_running is 61, and more than 50", "waits: Threads_running is 70, and more than 50", ""]
    assert [one.reasons.sentences for one in statements] == [expected] * 6


def test_load_probe_gets_the_number_of_own_statements(load: Load, pool: ThreadPoolExecutor) -> None:
    db_throttle = Throttle("shop", pausing())
    statements = []
    for _ in range(3):
        statements.append(Statement(db_throttle, pool))
        assert statements[-1].entered.wait(20)
        time.sleep(durations().load_probe)
    assert load.probes == [0, 1, 2]
    for one in statements:
        one.leave.set()
        one.ended.result(20)


def test_wait_for_load_times_out(load: Load) -> None:
    load.reason = "the replica is 45 s behind, which is more than 30 s"
    db_throttle = Throttle("shop", pausing(give_up=0.5))
    began = time.monotonic()
    with pytest.raises(
        DatabaseBusy, match=r"^shop: the replica is 45 s .* 30 s, for 0.5 s; start a new run .* if it is reported as resumable$"
    ):
        with db_throttle.statement(WaitReasons(), threading.Event()):
            pytest.fail("the wait did not time out")
    assert time.monotonic() - began >= 0.5
    assert not db_throttle.is_in_use()


def test_wait_for_a_slot_does_not_time_out(load: Load, pool: ThreadPoolExecutor) -> None:
    db_throttle = Throttle("shop", pausing(give_up=0.3, statements=1))
    first, second = Statement(db_throttle, pool), None
    assert first.entered.wait(20)
    second = Statement(db_throttle, pool)
    time.sleep(0.8)
    assert not second.ended.done()
    first.leave.set()
    assert second.entered.wait(20)
    second.leave.set()
    second.ended.result(20)


def test_unreachable_server_is_waited_for(load: Load, pool: ThreadPoolExecutor) -> None:
    load.error = Unreachable("connection refused")
    db_throttle = Throttle("shop", pausing())
    waiter = Statement(db_throttle, pool)
    wait_until(lambda: waiter.reasons.sentences, "the statement waits")
    assert waiter.reasons.sentences == ["waits: the load of the server cannot be probed: connection refused"]
    load.error = None
    assert waiter.entered.wait(20)
    waiter.leave.set()
    waiter.ended.result(20)


def test_permanent_errors_of_the_load_probe_are_raised(load: Load) -> None:
    load.error = AccessDenied("GRANT pg_read_all_stats to it")
    with pytest.raises(AccessDenied, match="pg_read_all_stats"), Throttle("shop", pausing()).statement(WaitReasons(), threading.Event()):
        pytest.fail("the error of the load probe was not raised")


def test_one_throttle_per_connection(load: Load) -> None:
    first = throttle.get_throttle("shop", connection(statements=1))
    assert throttle.get_throttle("shop", connection(statements=1)) is first
    assert throttle.get_throttle("other", connection(statements=1)) is not first
    with first.statement(WaitReasons(), threading.Event()):
        throttle.close_all()
        assert throttle.get_throttle("shop", connection(statements=1)) is first, "a throttle in use is not closed"
    throttle.close_all()
    assert throttle.get_throttle("shop", connection(statements=1)) is not first


def test_new_limits_apply_immediately(load: Load, pool: ThreadPoolExecutor) -> None:
    db_throttle = throttle.get_throttle("shop", connection(statements=1))
    statements = [Statement(db_throttle, pool) for _ in range(2)]
    wait_until(lambda: any(one.reasons.sentences for one in statements), "one statement waits")
    throttle.get_throttle("shop", connection(statements=2))
    for one in statements:
        assert one.entered.wait(20)
        one.leave.set()
        one.ended.result(20)


@pytest.mark.parametrize(
    ("url", "pause_when", "sentence"),
    [
        ("postgresql://h/d", {"threads_running": 5}, "threads_running, which postgres cannot report; it reports active_sessions, lag"),
        ("mysql://h/d", {"queued": 5, "lag": 1}, "queued, which mysql cannot report; it reports threads_running, lag"),
        ("redshift://h/d", {"lag": 5}, "lag, which redshift cannot report; it reports queued, lag with a heartbeat"),
    ],
)
def test_measure_that_the_engine_cannot_report_is_rejected(url: str, pause_when: dict[str, float], sentence: str) -> None:
    with pytest.raises(PlanError, match=f"^shop: the connection's pause_when asks for {sentence}$"):
        throttle.get_throttle("shop", ConnectionSettings.model_validate({"url": url, "limits": {"pause_when": pause_when}}))


def test_redshift_supports_lag_with_a_heartbeat() -> None:
    throttle.get_throttle("shop", ConnectionSettings.model_validate({"url": "redshift://h/d", "limits": {"pause_when": BEATS}}))
    throttle.close_all()
