"""Both sides at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from auditor import telemetry
from auditor.errors import StatementCancelled
from auditor.model import SIDES, Side

T = TypeVar("T")

CANCEL_AGAIN = 0.5
"""Seconds after which a statement that still runs is cancelled again."""


def both(work: Callable[[Side], T], cancel: Callable[[], None] | None = None) -> dict[Side, T]:
    """``work`` for both sides at once.

    The first error is raised, after ``cancel`` ended what the other side was doing; one that says no more than that it was cancelled
    gives way to the other side's, which is the reason.
    """
    with ThreadPoolExecutor(2, thread_name_prefix="side") as pool:
        futures: dict[Side, Future[T]] = {side: pool.submit(telemetry.carried(work), side) for side in SIDES}
        try:
            done, running = wait(futures.values(), return_when=FIRST_EXCEPTION)
            first = next((error for future in done if (error := future.exception())), None)
        except KeyboardInterrupt as interrupt:
            first, running = interrupt, set(futures.values())
        if first:
            while running and cancel:  # a cancel that comes before the statement began is lost, so it is repeated
                cancel()
                running = wait(running, timeout=CANCEL_AGAIN).not_done
            errors = [error for future in futures.values() if future.done() and (error := future.exception())]
            raise min([first, *errors], key=lambda error: isinstance(error, StatementCancelled))
        return {side: future.result() for side, future in futures.items()}
