"""Work on both sides in parallel, and which error is raised if both fail."""

from __future__ import annotations

import threading

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
