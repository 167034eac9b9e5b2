"""Limit concurrent statements, in order of arrival, and report to those that wait what they wait for.

A `Limiter` counts those of one connection. `hold_slot` counts those on a database: over all its connections and, where processes share a
store, over all processes.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from auditor.errors import StatementCancelled, StoreError
from auditor.waits import waits

if TYPE_CHECKING:
    from auditor.store import Store

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


log = logging.getLogger(__name__)


class _Shared:
    """The store that counts statements, and the slots that this process holds there, which a thread keeps renewing.

    What reads the store is loaded here, because that takes longer than most servers take to log in.
    """

    def __init__(self, store: Store) -> None:
        from auditor.store import leases
        from auditor.store.leases import Renewal

        self.take = partial(leases.take_slot, store)
        self.renew = partial(leases.renew_slot, store)
        self.release = partial(leases.release_slot, store)
        self.databases: dict[str, str] = {}
        """The database of each holder."""
        self.renewal = Renewal("slots", self._renew_all, waits().slot_lapse / 4)
        self.renewal.start()

    def _renew_all(self) -> None:
        for holder, database in list(self.databases.items()):
            with suppress(StoreError):  # while the store fails, no other process gets the slot either
                self.renew(database, holder, waits().slot_lapse)


_shared: _Shared | None = None


def share_through(store: Store | None) -> None:
    """Count statements over all processes that share this store from now on, or in this process alone (None)."""
    global _shared
    before, _shared = _shared, _Shared(store) if store else None
    if before:
        before.renewal.ask_to_stop()


@contextmanager
def hold_slot(database_of: Callable[[], str], most: Callable[[], int | None], waiter: Waiter) -> Iterator[None]:
    """Hold one of ``most()`` slots on the database ``database_of()`` for the block; None is no limit.

    Raises StatementCancelled once the waiter was stopped.
    """
    if most() is None:
        yield
        return
    shared, holder, database = _shared, uuid.uuid4().hex, database_of()
    if shared is None:
        with _limiters_lock:
            limiter = _limiters.setdefault(database, Limiter(" over all connections"))
        with limiter.admit(holder, most, waiter):
            yield
        return
    try:
        waiter.wait(partial(_reason_to_wait, shared, database, holder, most), threading.Condition(), waits().slot_poll)
        yield
    finally:
        shared.databases.pop(holder, None)
        with suppress(StoreError):  # then it lapses
            shared.release(database, holder)


_limiters: dict[str, Limiter] = {}
"""Count the statements of this process on each database where no store is shared."""

_limiters_lock = threading.Lock()


def _reason_to_wait(shared: _Shared, database: str, holder: str, most: Callable[[], int | None]) -> str | None:
    """Take a slot of the store if one is free; return why not, and None if one was taken or none is needed."""
    limit = most()
    if limit is None:
        return None
    try:
        if not shared.take(database, limit, holder, waits().slot_lapse):
            return f"waits for {describe_slots(limit)} at once over all processes"
    except StoreError as error:
        if error.retryable:
            return f"waits for its slot, which the store cannot count: {error}"
        log.warning("statements are counted in this process alone: %s", error, extra={"action": "slots_failed"})
        return None
    shared.databases[holder] = database
    return None
