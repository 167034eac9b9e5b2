"""Time limits of statements in this process: a statement is cancelled once its limit has passed, and never after it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import dialects
from dialects import ColumnBatch
from dialects.errors import AuditorError, StatementCancelled, StatementTimeout
from dialects.session import InProcessSession
from dialects.timers import Timers

LONG = 60.0
"""Seconds that no test waits for."""


@pytest.fixture
def timers() -> Timers:
    return Timers()


def test_a_call_is_made_once_its_time_has_come(timers: Timers) -> None:
    called = threading.Event()
    began = time.monotonic()
    with timers.after(0.05, called.set):
        assert called.wait(LONG)
    assert time.monotonic() - began >= 0.05


def test_no_call_is_made_once_its_block_has_ended(timers: Timers) -> None:
    called, later = threading.Event(), threading.Event()
    with timers.after(0.1, called.set):
        pass
    with timers.after(0.3, later.set):
        assert later.wait(LONG)
    assert not called.is_set()


def test_an_earlier_call_does_not_wait_for_later_ones(timers: Timers) -> None:
    calls: list[str] = []
    done = threading.Event()

    def last() -> None:
        calls.append("last")
        done.set()

    with ExitStack() as stack:
        stack.enter_context(timers.after(LONG, pytest.fail))
        stack.enter_context(timers.after(0.3, last))
        stack.enter_context(timers.after(0.05, lambda: calls.append("first")))
        assert done.wait(LONG / 2)
    assert calls == ["first", "last"]


def test_a_call_that_takes_long_keeps_no_other_waiting(timers: Timers) -> None:
    released, called = threading.Event(), threading.Event()
    with timers.after(0, lambda: released.wait(LONG)), timers.after(0.05, called.set):
        assert called.wait(LONG / 2)
    released.set()


def test_the_thread_ends_when_nothing_is_set_and_starts_again(timers: Timers) -> None:
    others = threading.enumerate()
    for _ in range(2):
        called = threading.Event()
        with timers.after(0, called.set):
            assert called.wait(LONG)
        ends = time.monotonic() + LONG
        while (left := [one for one in threading.enumerate() if one not in others]) and time.monotonic() < ends:
            time.sleep(0.01)
        assert not left


def test_a_forked_process_has_alarms_of_its_own(timers: Timers) -> None:
    with timers.after(LONG, pytest.fail), timers._changed:  # a thread that is not in the child, and a lock that is held there for ever
        timers.forget()
        called = threading.Event()
        with timers.after(0, called.set):
            assert called.wait(LONG)


class Slow(InProcessSession):
    """A session whose cancellations take a while and are counted."""

    def __init__(self, timeout: float) -> None:
        super().__init__(dialects.get("duckdb"), "", timeout)
        self.cancelled = threading.Semaphore(0)
        self.is_cancelling = threading.Event()

    def cancel(self) -> None:
        self.is_cancelling.set()
        time.sleep(0.2)
        self.is_cancelling.clear()
        self.cancelled.release()

    def query(self, sql: str) -> list[tuple[object, ...]]:
        raise NotImplementedError

    def execute(self, sql: str) -> None:
        raise NotImplementedError

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""


def test_a_statement_is_cancelled_until_it_ends_and_the_next_one_is_not() -> None:
    session = Slow(0.05)
    with pytest.raises(StatementTimeout, match=r"ran longer than 0\.05 s"), session.time_limit():
        assert session.cancelled.acquire(timeout=LONG) and session.cancelled.acquire(timeout=LONG)  # the first may have come too early
        raise StatementCancelled
    assert not session.is_cancelling.is_set()
    time.sleep(1)
    assert not session.cancelled.acquire(blocking=False) and session.statements == 0


def test_a_statement_that_ends_while_it_is_cancelled_waits_for_the_cancellation() -> None:
    session = Slow(0.05)
    with session.time_limit():
        assert session.is_cancelling.wait(LONG)
    assert not session.is_cancelling.is_set() and session.statements == 1


def test_an_error_of_a_statement_within_its_time_stays_what_it_is() -> None:
    with pytest.raises(AuditorError, match="of its own"), Slow(LONG).time_limit():
        raise AuditorError("of its own")
