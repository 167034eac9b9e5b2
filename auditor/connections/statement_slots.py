"""Limit concurrent statements on a database over all its connections and, where processes share a store, over all processes."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from auditor.background import Service
from auditor.errors import StatementCancelled, StoreError

if TYPE_CHECKING:
    from auditor.store import Store

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.25
"""Seconds between two checks whether a slot is free."""

LAPSE = 30.0
"""Seconds after which the slot of a process that stopped renewing it is free again."""


class _Shared:
    """The store that counts statements, and the slots that this process holds there, which a thread keeps renewing.

    What reads the store is loaded here, because that takes longer than most servers take to log in.
    """

    def __init__(self, store: Store) -> None:
        from auditor.store import slots

        self.take = partial(slots.take_slot, store)
        self.renew = partial(slots.renew_slot, store)
        self.release = partial(slots.release_slot, store)
        self.held: set[str] = set()
        self.renewal = Service("slots", self._renew_all, LAPSE / 4, waits_first=True)
        self.renewal.start()

    def _renew_all(self) -> None:
        for holder in list(self.held):
            with suppress(StoreError):  # while the store fails, no other process gets the slot either
                self.renew(holder, LAPSE)


_shared: _Shared | None = None


def share_through(store: Store | None) -> None:
    """Count statements over all processes that share this store from now on, or in this process alone (None)."""
    global _shared
    before, _shared = _shared, _Shared(store) if store else None
    if before:
        before.renewal.ask_to_stop()


@contextmanager
def hold_slot(
    database_of: Callable[[], str], most: Callable[[], int | None], on_wait: Callable[[str], None], stopped: threading.Event
) -> Iterator[None]:
    """Hold one of ``most()`` slots on the database ``database_of()`` for the block; None is no limit.

    Calls ``on_wait(reason)`` when the reason to wait changes, and ``on_wait('')`` once the slot is held. Raises StatementCancelled once
    ``stopped`` is set.
    """
    if most() is None:
        yield
        return
    shared, holder, database = _shared, uuid.uuid4().hex, database_of()
    if shared is None:
        with _local.hold(database, holder, most, on_wait, stopped):
            yield
        return
    try:
        _wait(shared, database, holder, most, on_wait, stopped)
        yield
    finally:
        shared.held.discard(holder)
        with suppress(StoreError):  # then it lapses
            shared.release(database, holder)


class _LocalSlots:
    """Counts the statements of this process where no store is shared: the first ``most`` in order of arrival hold the slots."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queues: dict[str, list[str]] = {}

    @contextmanager
    def hold(
        self, database: str, holder: str, most: Callable[[], int | None], on_wait: Callable[[str], None], stopped: threading.Event
    ) -> Iterator[None]:
        """Hold a slot for the block."""
        with self._changed:
            queue = self._queues.setdefault(database, [])
            queue.append(holder)
        try:
            self._wait(queue, holder, most, on_wait, stopped)
            yield
        finally:
            with self._changed:
                queue.remove(holder)
                self._changed.notify_all()

    def _wait(
        self, queue: list[str], holder: str, most: Callable[[], int | None], on_wait: Callable[[str], None], stopped: threading.Event
    ) -> None:
        reported = ""
        while True:
            with self._changed:
                limit = most()
                if limit is None or queue.index(holder) < limit:
                    break
                if stopped.is_set():
                    raise StatementCancelled
                reason = f"waits for {_many(limit)} at once over all connections"
                if reason == reported:
                    self._changed.wait(POLL_INTERVAL)
                    continue
            reported = reason
            on_wait(reason)  # outside the lock: it may take long
        if reported:
            on_wait("")


_local = _LocalSlots()


def _many(limit: int) -> str:
    return "the one statement" if limit == 1 else f"one of {limit} statements"


def _wait(
    shared: _Shared, database: str, holder: str, most: Callable[[], int | None], on_wait: Callable[[str], None], stopped: threading.Event
) -> None:
    reported = ""
    while (limit := most()) is not None:
        if stopped.is_set():
            raise StatementCancelled
        try:
            if shared.take(database, limit, holder, LAPSE):
                shared.held.add(holder)
                break
            reason = f"waits for {_many(limit)} at once over all processes"
        except StoreError as error:
            if not error.retryable:
                log.warning("statements are counted in this process alone: %s", error, extra={"action": "slots_failed"})
                break
            reason = f"waits for its slot, which the store cannot count: {error}"
        if reason != reported:
            reported = reason
            on_wait(reason)
        stopped.wait(POLL_INTERVAL)
    if reported:
        on_wait("")
