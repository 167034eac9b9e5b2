"""Work on both sides in parallel, and which error is raised if both fail."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

import pytest

from auditor.connections.reader import on_both_sides
from auditor.errors import StatementCancelled, StatementRefused
from auditor.model import Side


@pytest.mark.parametrize("failing", ["source", "target"])
def test_original_error_is_raised_instead_of_the_cancellation_it_caused(failing: Side) -> None:
    """The failing side cancels the other, which may raise first."""
    cancelled, ended = threading.Event(), threading.Event()

    def work(side: Side) -> None:
        if side != failing:
            cancelled.wait(10)
            ended.set()
            raise StatementCancelled
        cancelled.set()
        ended.wait(10)
        raise StatementRefused("the reason")

    with pytest.raises(StatementRefused, match="the reason"):
        on_both_sides(work, cancelled.set)


def test_interrupt_is_raised_instead_of_a_cancellation() -> None:
    def work(side: Side) -> None:
        raise KeyboardInterrupt if side == "target" else StatementCancelled

    with pytest.raises(KeyboardInterrupt):
        on_both_sides(work, lambda: None)


def test_signal_is_handled_though_it_did_not_interrupt_the_wait() -> None:
    """A signal that another thread receives leaves the main thread's wait as it is, as does one that comes just before the wait."""
    cancelled = threading.Event()
    in_time: list[bool] = []

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def work(side: Side) -> None:
        if side == "source":
            time.sleep(0.2)  # until the main thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        in_time.append(cancelled.wait(10))
        raise StatementCancelled

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            on_both_sides(work, cancelled.set)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert in_time == [True, True]
