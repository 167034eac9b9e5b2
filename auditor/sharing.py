"""Statements at once on a database, whatever connection they come by: counted over all processes that share a store and serve."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from auditor.errors import StatementCancelled, StoreError
from auditor.store import Store, slots

log = logging.getLogger(__name__)

GLANCE = 0.25
"""Seconds between two questions whether it is one's turn."""

LAPSE = 30.0
"""Seconds after which the slot of a process that gives no sign of life is free again."""


class _Shared:
    """The store over which statements are counted, and what this process holds there; a thread gives signs of life meanwhile."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ended = threading.Event()
        self.held: set[str] = set()
        threading.Thread(target=self._beat, name="slots", daemon=True).start()

    def _beat(self) -> None:
        while not self.ended.wait(LAPSE / 4):
            for holder in list(self.held):
                with suppress(StoreError):  # until it can be asked again, nobody else is given the slot either
                    slots.renew(self.store, holder, LAPSE)


_shared: _Shared | None = None


def share(store: Store | None) -> None:
    """Count statements over all processes that share this store from now on; None: this process alone. Runs may go on meanwhile."""
    global _shared
    before, _shared = _shared, _Shared(store) if store else None
    if before:
        before.ended.set()


@contextmanager
def slot(database: str, most: Callable[[], int | None], waiting: Callable[[str], None], stopped: threading.Event) -> Iterator[None]:
    """Be one of ``most`` on a database for the block, after a wait if need be, whose reason ``waiting`` is told at each change and ''
    at its end.

    Raises StatementCancelled once ``stopped`` is set.
    """
    shared, holder = _shared, uuid.uuid4().hex
    if most() is None:
        yield
        return
    if shared is None:
        with _alone.passed(database, holder, most, waiting, stopped):
            yield
        return
    try:
        _wait(shared, database, holder, most, waiting, stopped)
        yield
    finally:
        shared.held.discard(holder)
        with suppress(StoreError):  # it lapses
            slots.release(shared.store, database, holder)


class _Alone:
    """The statements of this process where no store is shared, in the order in which they came: the first ``most`` are under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[str, list[str]] = {}

    @contextmanager
    def passed(
        self, database: str, holder: str, most: Callable[[], int | None], waiting: Callable[[str], None], stopped: threading.Event
    ) -> Iterator[None]:
        """Be one of the first for the block."""
        with self._changed:
            line = self._lines.setdefault(database, [])
            line.append(holder)
        try:
            self._wait(line, holder, most, waiting, stopped)
            yield
        finally:
            with self._changed:
                line.remove(holder)
                self._changed.notify_all()

    def _wait(
        self, line: list[str], holder: str, most: Callable[[], int | None], waiting: Callable[[str], None], stopped: threading.Event
    ) -> None:
        said = ""
        while True:
            with self._changed:
                limit = most()
                if limit is None or line.index(holder) < limit:
                    break
                if stopped.is_set():
                    raise StatementCancelled
                told = f"waits for {_many(limit)} at once over all connections"
                if told == said:
                    self._changed.wait(GLANCE)
                    continue
            said = told
            waiting(told)  # outside the lock: it may take its time
        if said:
            waiting("")


_alone = _Alone()


def _many(limit: int) -> str:
    return "the one statement" if limit == 1 else f"one of {limit} statements"


def _wait(
    shared: _Shared, database: str, holder: str, most: Callable[[], int | None], waiting: Callable[[str], None], stopped: threading.Event
) -> None:
    said = ""
    while (limit := most()) is not None:
        if stopped.is_set():
            raise StatementCancelled
        try:
            if slots.take(shared.store, database, limit, holder, LAPSE):
                shared.held.add(holder)
                break
            told = f"waits for {_many(limit)} at once over all processes"
        except StoreError as error:
            if not error.retryable:
                log.warning("statements are counted in this process alone: %s", error, extra={"action": "slots_failed"})
                break
            told = f"waits for its turn, which the store cannot say: {error}"
        if told != said:
            said = told
            waiting(told)
        stopped.wait(GLANCE)
    if said:
        waiting("")
