"""Limit concurrent statements on a database over all its connections and, where processes share a store, over all processes."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from auditor.connections.limiter import Limiter, Waiter, describe_slots
from auditor.errors import StoreError
from auditor.waits import waits

if TYPE_CHECKING:
    from auditor.store import Store

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
