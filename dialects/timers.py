"""Calls after a time, which one thread makes for the whole process: to start a thread for each would cost more than a small statement.

Waits on servers have a watchdog of their own (dialects/wire.py), which can be hastened and never cuts a wait that has just ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Timers:
    """Calls functions once their time has come, each in a thread of its own, so that none waits for another."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget what is set, as in a forked process, which has no thread of its parent's and perhaps a lock that one of them held."""
        self._changed = threading.Condition()
        self._set: dict[object, tuple[float, Callable[[], object]]] = {}
        """When to make each call (monotonic seconds), and the call."""
        self._looks_at: float | None = None
        """When the thread checks again what is set; None while there is no thread."""

    @contextmanager
    def after(self, seconds: float, call: Callable[[], object]) -> Iterator[None]:
        """Call ``call()`` once ``seconds`` have passed, unless the block has ended by then."""
        timer, at = object(), time.monotonic() + seconds
        with self._changed:
            self._set[timer] = at, call
            if self._looks_at is None:
                threading.Thread(target=self._watch, name="alarms", daemon=True).start()
                self._looks_at = at
            elif at < self._looks_at:
                self._looks_at = at
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._set.pop(timer, None)

    def _watch(self) -> None:
        """Make the calls that are due, and end once nothing is set."""
        with self._changed:
            while self._set:
                self._looks_at = min(at for at, _ in self._set.values())
                wait = self._looks_at - time.monotonic()
                if wait > 0:
                    self._changed.wait(min(wait, threading.TIMEOUT_MAX))
                    continue
                for timer in [timer for timer, (at, _) in self._set.items() if at <= self._looks_at]:
                    threading.Thread(target=self._set.pop(timer)[1], name="alarm", daemon=True).start()
            self._looks_at = None


of_process = Timers()
"""The timers of this process."""
os.register_at_fork(after_in_child=of_process.forget)
