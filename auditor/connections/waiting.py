"""Wait for threads so that the main thread still answers to signals."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

from auditor.waits import waits

T = TypeVar("T")


def wait_for_first_failure(futures: Collection[Future[T]]) -> tuple[set[Future[T]], set[Future[T]]]:
    """Wait until all have ended or one has failed, and return those that have ended and those that have not.

    Python runs a signal's handler between two steps of the main thread. A wait without a limit is one step: a signal that arrives just
    before it, or that another thread receives, would be handled only when the wait ends, perhaps after hours.
    https://docs.python.org/3/library/signal.html#execution-of-python-signal-handlers
    """
    while True:
        ended, running = wait(futures, waits().signal_poll, return_when=FIRST_EXCEPTION)
        if not running or any(future.exception() for future in ended):
            return ended, running
