"""A load as pgbench makes it: a thread that commits small transactions of updates, inserts and deletes, one after the other."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.servers import mysql

KEYS = 2000
"""Rows that are there from the beginning, with the keys 1 to this one."""

PROBE = 100_000
"""From this key on rows belong to the faults: the load does not touch them, for its next update would mend a row."""

PROBES = 10
"""So many of them are there from the beginning."""

PAUSE = 0.03
"""Seconds between two transactions, of three events each."""


def row_of(key: int) -> str:
    """Return a row as a literal: texts in two scripts, a decimal number, one with all digits of a double, a time with microseconds."""
    at = f"2026-11-{1 + key % 28:02d} 12:{key % 60:02d}:07.{123_456 + key % 1000:06d}"
    return f"({key}, 'Zoë buys item {key}', 'Köln {key % 89}', '', {key % 997}.125, {key} / 7e0, '{at}')"


class Load(threading.Thread):
    """Writes into a table until it is stopped."""

    def __init__(self, url: str, table: str) -> None:
        super().__init__(name="load")
        self._url, self._table = url, table
        self._random = random.Random(7)
        self._stopped, self._writing = threading.Event(), threading.Lock()
        self._inserted: list[int] = []
        self.events = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with closing(mysql.connect(self._url)) as connection, connection.cursor() as cursor:
                while not self._stopped.wait(PAUSE):
                    with self._writing:
                        for statement in ("BEGIN", *self._transaction()):
                            self.events += cursor.execute(statement)
                        cursor.execute("COMMIT")
        except Exception as error:
            self.error = error

    def _transaction(self) -> Iterator[str]:
        table, choice = self._table, self._random
        yield f"UPDATE {table} SET amount = amount + {choice.randint(1, 5000)} / 1000 WHERE id = {choice.randint(1, KEYS)}"
        yield f"UPDATE {table} SET city = 'Köln {choice.random()}', moved = NOW(6) WHERE id = {choice.randint(1, KEYS)}"
        if choice.random() < 0.5 and self._inserted:
            yield f"DELETE FROM {table} WHERE id = {self._inserted.pop(choice.randrange(len(self._inserted)))}"
        else:
            self._inserted.append(KEYS + 1 + self.events)
            yield f"INSERT INTO {table} VALUES {row_of(self._inserted[-1])}"

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Commit nothing in the block."""
        with self._writing:
            yield

    def stop(self) -> None:
        """End it. Raises what ended it before."""
        self._stopped.set()
        self.join()
        if self.error:
            raise self.error
