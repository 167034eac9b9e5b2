"""Admit so many at a time, in order of arrival, and report to those that wait what they wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from auditor.errors import StatementCancelled
from auditor.waits import waits

OnWait = Callable[[str], None]
"""Receives the reason to wait whenever it changes, and an empty text once the wait is over."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who may have to wait: what receives the reason, and what is set to end the wait."""

    on_wait: OnWait
    stopped: threading.Event

    def wait(self, reason_to_wait: Callable[[], str | None], changed: threading.Condition, poll: float) -> None:
        """Wait until there is no reason to; it is asked for, '' if it is not known yet, whenever ``changed``, and every ``poll`` seconds.

        Raises StatementCancelled once ``stopped`` is set, and errors of ``reason_to_wait``.
        """
        reported = ""
        while True:
            with changed:
                if self.stopped.is_set():
                    raise StatementCancelled
                reason = reason_to_wait()
                if reason is None:
                    break
                if not reason or reason == reported:
                    changed.wait(poll)
                    continue
            reported = reason
            self.on_wait(reason)  # outside the lock: it may take long
        if reported:
            self.on_wait("")


def admit_all(_: bool) -> None:
    """Let nobody wait for more than its turn."""


class Limiter:
    """Admits up to a limit, which may change meanwhile, in order of arrival."""

    def __init__(self, scope: str = "") -> None:
        """``scope`` says over what it counts, for those that wait."""
        self.changed = threading.Condition()
        """To be notified when a limit, or what else lets anybody wait, has changed. It guards what follows."""
        self.admitted: set[object] = set()
        self._queue: list[object] = []
        self._scope = scope

    @contextmanager
    def admit(
        self, who: object, limit: Callable[[], int | None], waiter: Waiter, reason_to_wait: Callable[[bool], str | None] = admit_all
    ) -> Iterator[None]:
        """Be admitted for the block; a limit of None is none.

        ``reason_to_wait`` returns why one waits, given whether it would be admitted next, for another reason than its turn: '' if that is
        not known yet, None if there is none. Raises its errors, and StatementCancelled once the waiter was stopped.
        """

        def reason() -> str | None:
            most = limit()
            is_next = most is None or len(self.admitted) + self._queue.index(who) < most
            other = reason_to_wait(is_next)
            if other is None and not is_next:
                return f"waits for {describe_slots(most)} at once{self._scope}"
            if other is None:
                self._queue.remove(who)
                self.admitted.add(who)
            return other

        with self.changed:
            self._queue.append(who)
        try:
            waiter.wait(reason, self.changed, waits().limiter_poll)
            yield
        finally:
            with self.changed:
                if who in self._queue:
                    self._queue.remove(who)
                self.admitted.discard(who)
                self.changed.notify_all()

    def is_in_use(self) -> bool:
        """Return whether anybody is admitted or waits."""
        with self.changed:
            return bool(self.admitted or self._queue)


def describe_slots(most: int | None) -> str:
    """Return what one waits for that is not admitted."""
    return "the one statement" if most == 1 else f"one of {most} statements"
