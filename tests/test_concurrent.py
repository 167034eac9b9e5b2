"""Both sides at once, and which error is told when both end by one."""

from __future__ import annotations

import threading

import pytest

from auditor.concurrent import both
from auditor.errors import StatementCancelled, StatementRefused
from auditor.model import Side


@pytest.mark.parametrize("failing", ["source", "target"])
def test_the_reason_is_told_and_not_what_it_did_to_the_other_side(failing: Side) -> None:
    """The side that fails cancels the other, which may have ended before."""
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
        both(work, cancelled.set)


def test_an_interrupt_matters_more_than_what_it_ends() -> None:
    def work(side: Side) -> None:
        raise KeyboardInterrupt if side == "target" else StatementCancelled

    with pytest.raises(KeyboardInterrupt):
        both(work, lambda: None)
