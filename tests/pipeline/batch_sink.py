"""Somebody's pipeline: it gets the changes of a table in the order in which they were committed, and applies them in batches, with faults.

Rows are tuples of texts; the first one is the key. A change is a key with its row, or None where none is left.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from tests.servers import postgres

Row = tuple[str | None, ...]
Life = Sequence[Row | None]
"""The states of a key, the first one before it was made: None."""

Fault = Callable[[Life], Sequence[Row]]
"""Returns the rows that the target ends with."""


def changed(row: Row, place: int, value: str | None) -> Row:
    """Return a row with another value."""
    return (*row[:place], value, *row[place + 1 :])


def _last(life: Life) -> Row:
    return next(row for row in reversed(life) if row is not None)


def _swapped(life: Life) -> Sequence[Row]:
    key, item, price, day, note = _last(life)
    return [(key, note, price, day, item)]


FAULTS: Mapping[str, Fault] = {
    "lost insert": lambda life: [],
    "lost update": lambda life: [_last(life[:-1])],
    "lost updates": lambda life: [_last(life[:2])],
    "lost delete": lambda life: [_last(life)],
    "doubled insert": lambda life: [_last(life), _last(life)],
    "doubled by an older one": lambda life: [_last(life), _last(life[:2])],
    "swapped columns": _swapped,
    "stale write": lambda life: [_last(life[:-1])],
    "wrong value": lambda life: [changed(_last(life), 1, "wrong")],
    "rounded": lambda life: [changed(_last(life), 2, "7.00")],
    "edited in the target": lambda life: [changed(_last(life), 4, "edited")],
    "deleted in the target": lambda life: [],
    "made in the target": lambda life: [changed(_last(life), 1, "nobody's")],
    "NULL for a text": lambda life: [changed(_last(life), 1, None)],
    "empty for NULL": lambda life: [changed(_last(life), 4, "")],
    "cut": lambda life: [changed(_last(life), 1, (_last(life)[1] or "")[:3])],
    "folded": lambda life: [changed(_last(life), 1, (_last(life)[1] or "").lower())],
    "blank lost": lambda life: [changed(_last(life), 1, (_last(life)[1] or "").rstrip())],
    "another day": lambda life: [changed(_last(life), 3, "2026-01-01")],
    "half an update": lambda life: [changed(_last(life[:-1]), 2, _last(life)[2])],
    "raised from the dead": lambda life: [_last(life[:2])],
    "values of another row": lambda life: [(_last(life)[0], "Item of another ", "1.11", "2026-03-03", None)],
}
"""What goes wrong on the way of a row, by name. 22 of them."""

DELETED = ("lost delete", "made in the target", "raised from the dead")
"""Those of keys that the source deletes in the end."""


@dataclass(slots=True)
class BatchSink:
    """Applies changes to a table of PostgreSQL, a batch in a transaction, each after a random while."""

    url: str
    table: str
    longest: float
    """Seconds that a batch is held back at most."""
    changes: queue.Queue[tuple[float, str, Sequence[Row]]] = field(default_factory=queue.Queue)
    """When each was committed, its key, and the rows that the target has of it from then on."""
    lag: float = 0.0
    """The most seconds that a change took."""
    applied: int = 0
    _failures: list[BaseException] = field(default_factory=list)

    def send(self, key: str, rows: Sequence[Row]) -> None:
        """Hand on a change that was just committed."""
        self.changes.put((time.monotonic(), key, rows))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Apply changes for the block, and those that are left at its end."""
        done = threading.Event()
        thread = threading.Thread(target=self._guarded, args=(done,))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert not self._failures

    def _guarded(self, done: threading.Event) -> None:
        try:
            self._work(done)
        except BaseException as error:
            self._failures.append(error)
            raise

    def _work(self, done: threading.Event) -> None:
        chance = random.Random(5)
        with closing(postgres.connect(self.url)) as connection:
            connection.autocommit = False
            while not done.is_set() or not self.changes.empty():
                time.sleep(chance.uniform(0, self.longest))
                batch = list[tuple[float, str, Sequence[Row]]]()
                while not self.changes.empty() and len(batch) < 500:
                    batch.append(self.changes.get())
                with connection.cursor() as cursor:
                    for _, key, rows in batch:
                        cursor.execute(f"DELETE FROM {self.table} WHERE id = %s", (key,))
                        for row in rows:
                            cursor.execute(f"INSERT INTO {self.table} VALUES (%s, %s, %s, %s, %s)", row)
                connection.commit()
                self.applied += len(batch)
                self.lag = max([self.lag, *(time.monotonic() - sent for sent, _, _ in batch)])
