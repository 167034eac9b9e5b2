"""The gate of a database: its slots, its waits and their ends. The load is made up here; tests/test_guest_load.py asks servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from auditor import guest
from auditor.config import Connection
from auditor.errors import AccessDenied, AuditorError, GuestWaited, PlanError, StatementCancelled, Unreachable
from auditor.guest import Gate

BEATS = {"lag": 5, "heartbeat": {"table": "beats", "column": "at"}}


class Told:
    """Keeps the sentences that a gate says."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.sentences.append(sentence)


def until(true: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"it never was so: {what}"
        time.sleep(0.01)


class Load:
    """What the server of these tests says: a reason to wait, or an error."""

    def __init__(self) -> None:
        self.reason = ""
        self.error: AuditorError | None = None
        self.asked: list[int] = []

    def __call__(self, session: object, name: str, connection: Connection, own: int) -> str:
        self.asked.append(own)
        if self.error:
            raise self.error
        return self.reason


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    made_up = Load()
    monkeypatch.setattr(guest, "_too_much", made_up)
    monkeypatch.setattr(guest, "PERIOD", 0.1)
    yield made_up
    guest.close_all()


def connection(**limits: object) -> Connection:
    return Connection.model_validate({"url": "duckdb://", "limits": limits})


def pausing(give_up: float = 60.0, **limits: object) -> Connection:
    return connection(pause_when={**BEATS, "give_up": give_up}, **limits)


class Inside:
    """A thread inside a gate, until it is told to leave."""

    def __init__(self, gate: Gate, pool: ThreadPoolExecutor) -> None:
        self.told, self.stopped = Told(), threading.Event()
        self.entered, self.leave = threading.Event(), threading.Event()
        self.ended: Future[None] = pool.submit(self._run, gate)

    def _run(self, gate: Gate) -> None:
        with gate.statement(self.told, self.stopped):
            self.entered.set()
            assert self.leave.wait(20)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as threads:
        yield threads


def test_without_limits_nobody_waits(pool: ThreadPoolExecutor) -> None:
    gate = Gate("free", connection())
    inside = [Inside(gate, pool) for _ in range(8)]
    for one in inside:
        assert one.entered.wait(5)
        one.leave.set()
    assert not any(one.told.sentences for one in inside)


def test_slots_are_given_in_the_order_of_asking(pool: ThreadPoolExecutor) -> None:
    gate = Gate("shop", connection(statements=2))
    inside: list[Inside] = []
    for number in range(6):
        inside.append(Inside(gate, pool))
        until(lambda one=inside[-1]: one.entered.is_set() or one.told.sentences, f"number {number} came")  # type: ignore[misc]
    assert [one.entered.is_set() for one in inside] == [True, True, False, False, False, False]
    assert inside[2].told.sentences == ["waits for one of 2 statements at once"]
    for number in range(4):
        inside[number].leave.set()
        assert inside[number + 2].entered.wait(5)
        assert not any(one.entered.is_set() for one in inside[number + 3 :])
    for one in inside:
        one.leave.set()
        one.ended.result(5)
    assert [one.told.sentences[1:] for one in inside[2:]] == [[""]] * 4
    assert not gate.used()


def test_a_statement_within_a_statement_takes_no_slot() -> None:
    gate = Gate("shop", connection(statements=1))
    told = Told()
    with gate.statement(told, threading.Event()), gate.statement(told, threading.Event()):
        with gate.statement(told, threading.Event()):
            assert gate.used()
    assert not gate.used()
    assert told.sentences == []


def test_a_slot_comes_back_after_an_error(pool: ThreadPoolExecutor) -> None:
    gate = Gate("shop", connection(statements=1))
    with pytest.raises(ZeroDivisionError), gate.statement(Told(), threading.Event()):
        raise ZeroDivisionError

    def refusing(_: str) -> None:
        raise ZeroDivisionError

    first = Inside(gate, pool)
    assert first.entered.wait(5)
    with pytest.raises(ZeroDivisionError), gate.statement(refusing, threading.Event()):
        pytest.fail("there is no slot")
    first.leave.set()
    first.ended.result(5)
    assert not gate.used()


@pytest.mark.parametrize("how", ["slots", "load"])
def test_who_waits_is_stopped_at_once(how: str, load: Load, pool: ThreadPoolExecutor) -> None:
    load.reason = "Threads_running is 61, and more than 50" if how == "load" else ""
    gate = Gate("shop", pausing() if how == "load" else connection(statements=1))
    holder = Inside(gate, pool) if how == "slots" else None
    if holder:
        assert holder.entered.wait(5)
    waiter = Inside(gate, pool)
    until(lambda: waiter.told.sentences, "it waits")
    began = time.monotonic()
    waiter.stopped.set()
    with pytest.raises(StatementCancelled):
        waiter.ended.result(5)
    assert time.monotonic() - began < 0.2
    if holder:
        holder.leave.set()
        holder.ended.result(5)
    assert not gate.used()


def test_a_load_holds_everybody_and_is_asked_once_a_period(load: Load, pool: ThreadPoolExecutor) -> None:
    load.reason = "Threads_running is 61, and more than 50"
    gate = Gate("shop", pausing())
    inside = [Inside(gate, pool) for _ in range(6)]
    until(lambda: all(one.told.sentences for one in inside), "all wait")
    began, before = time.monotonic(), len(load.asked)
    load.reason = "Threads_running is 70, and more than 50"
    time.sleep(0.6)
    assert len(load.asked) - before <= (time.monotonic() - began) / guest.PERIOD + 1
    assert not any(one.entered.is_set() for one in inside)
    load.reason = ""
    for one in inside:
        assert one.entered.wait(5)
        one.leave.set()
        one.ended.result(5)
    said = ["waits: Threads_running is 61, and more than 50", "waits: Threads_running is 70, and more than 50", ""]
    assert [one.told.sentences for one in inside] == [said] * 6


def test_our_own_statements_are_told_apart(load: Load, pool: ThreadPoolExecutor) -> None:
    gate = Gate("shop", pausing())
    inside = []
    for _ in range(3):
        inside.append(Inside(gate, pool))
        assert inside[-1].entered.wait(5)
        time.sleep(guest.PERIOD)
    assert load.asked == [0, 1, 2]
    for one in inside:
        one.leave.set()
        one.ended.result(5)


def test_the_wait_is_given_up(load: Load) -> None:
    load.reason = "the replica is 45 s behind, which is more than 30 s"
    gate = Gate("shop", pausing(give_up=0.5))
    began = time.monotonic()
    with pytest.raises(
        GuestWaited, match=r"^shop: the replica is 45 s .* 30 s, for 0.5 s; start a new run .* where it is told as resumable$"
    ):
        with gate.statement(Told(), threading.Event()):
            pytest.fail("nothing ended the wait")
    assert 0.5 <= time.monotonic() - began < 1.5
    assert not gate.used()


def test_waiting_for_a_slot_is_not_given_up(load: Load, pool: ThreadPoolExecutor) -> None:
    gate = Gate("shop", pausing(give_up=0.3, statements=1))
    first, second = Inside(gate, pool), None
    assert first.entered.wait(5)
    second = Inside(gate, pool)
    time.sleep(0.8)
    assert not second.ended.done()
    first.leave.set()
    assert second.entered.wait(5)
    second.leave.set()
    second.ended.result(5)


def test_a_server_that_is_gone_is_waited_for(load: Load, pool: ThreadPoolExecutor) -> None:
    load.error = Unreachable("connection refused")
    gate = Gate("shop", pausing())
    waiter = Inside(gate, pool)
    until(lambda: waiter.told.sentences, "it waits")
    assert waiter.told.sentences == ["waits: the server cannot be asked how busy it is: connection refused"]
    load.error = None
    assert waiter.entered.wait(5)
    waiter.leave.set()
    waiter.ended.result(5)


def test_what_waiting_does_not_mend_is_raised(load: Load) -> None:
    load.error = AccessDenied("GRANT pg_read_all_stats to it")
    with pytest.raises(AccessDenied, match="pg_read_all_stats"), Gate("shop", pausing()).statement(Told(), threading.Event()):
        pytest.fail("the load could not be asked")


def test_one_gate_for_all_audits(load: Load) -> None:
    first = guest.gate("shop", connection(statements=1))
    assert guest.gate("shop", connection(statements=1)) is first
    assert guest.gate("other", connection(statements=1)) is not first
    with first.statement(Told(), threading.Event()):
        guest.close_all()
        assert guest.gate("shop", connection(statements=1)) is first, "it is in use"
    guest.close_all()
    assert guest.gate("shop", connection(statements=1)) is not first


def test_new_limits_hold_at_once(load: Load, pool: ThreadPoolExecutor) -> None:
    gate = guest.gate("shop", connection(statements=1))
    inside = [Inside(gate, pool) for _ in range(2)]
    until(lambda: any(one.told.sentences for one in inside), "one waits")
    guest.gate("shop", connection(statements=2))
    for one in inside:
        assert one.entered.wait(5)
        one.leave.set()
        one.ended.result(5)


@pytest.mark.parametrize(
    ("url", "asked", "sentence"),
    [
        ("postgresql://h/d", {"threads_running": 5}, "threads_running, which postgres cannot say; it can say active_sessions, lag"),
        ("mysql://h/d", {"queued": 5, "lag": 1}, "queued, which mysql cannot say; it can say threads_running, lag"),
        ("redshift://h/d", {"lag": 5}, "lag, which redshift cannot say; it can say queued, lag with a heartbeat"),
    ],
)
def test_a_measure_that_the_engine_cannot_say_is_refused(url: str, asked: dict[str, float], sentence: str) -> None:
    with pytest.raises(PlanError, match=f"^shop: the connection's pause_when asks for {sentence}$"):
        guest.gate("shop", Connection.model_validate({"url": url, "limits": {"pause_when": asked}}))


def test_redshift_can_read_a_heartbeat() -> None:
    guest.gate("shop", Connection.model_validate({"url": "redshift://h/d", "limits": {"pause_when": BEATS}}))
    guest.close_all()
