"""A shop that works while a pipeline replicates it: two tables of the source, and a writer that inserts, updates and deletes rows."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from contextlib import closing

import dialects

TABLES = (
    "CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY, customer INT NOT NULL, item VARCHAR(40), price DECIMAL(10,2),"
    " placed DATETIME(6), KEY (customer)) CHARACTER SET utf8mb4",
    "CREATE TABLE IF NOT EXISTS customers (id INT PRIMARY KEY, name VARCHAR(60), email VARCHAR(80), password VARCHAR(40), country CHAR(2))"
    " CHARACTER SET utf8mb4",
)

MOVED = 1_000_000_000
"""What is added to the key of an order that gets another one."""


class Writer:
    """Writes to the source at this URL, drawn alike each time: transactions of so many orders as ``sizes`` has, and of changes."""

    def __init__(self, url: str, sizes: Sequence[int] = (1, 1, 5, 50, 2000), keep: int | None = None) -> None:
        """``keep`` is how many orders stay before the oldest are deleted; None for all."""
        self.url = url
        self.transactions = 0
        self._sizes, self._keep = sizes, keep
        self._random = random.Random(1)
        self._next = 1

    def run(self, stop: threading.Event, pause: float) -> None:
        """Write until ``stop`` is set, with so many seconds between two transactions of orders; an earlier writer's work is continued."""
        with closing(dialects.connect(self.url, 60.0, 10.0)) as session:
            [(last,)] = session.query(f"SELECT COALESCE(MAX(id MOD {MOVED}), 0) FROM orders")
            self._next = int(last) + 1
            customers = [f"({n}, 'Näme {n}', 'mail{n}@shop', 'hush', '{('DE', 'FR', 'XX')[n % 3]}')" for n in range(1, 501)]
            self._commit(session, f"INSERT IGNORE INTO customers VALUES {', '.join(customers)}")
            self._commit(session, self._orders(100))
            while not stop.wait(pause):
                self._commit(session, self._orders(self._random.choice(self._sizes)))
                for statement in self._random.sample(_changes(self._random.randrange(20, self._next)), 2):
                    self._commit(session, statement)
                if self._keep and (first := self._next - self._keep) > 0:
                    self._commit(session, f"DELETE FROM orders WHERE id < {first} OR id BETWEEN {MOVED} AND {MOVED + first}")

    def _orders(self, count: int) -> str:
        first, self._next = self._next, self._next + count
        rows = [
            f"({n}, {n % 500 + 1}, 'item {n % 97}', {n % 1000}.25, '2026-03-01 12:00:00.{n % 1000000:06d}')"
            for n in range(first, self._next)
        ]
        return f"INSERT INTO orders VALUES {', '.join(rows)}"

    def _commit(self, session: dialects.Session, statement: str) -> None:
        session.execute(statement)
        self.transactions += 1


def _changes(low: int) -> list[str]:
    """Return statements of which each is a transaction; none touches the first orders, which are broken later."""
    return [
        f"UPDATE orders SET price = price + 1, item = 'changed' WHERE id BETWEEN {low} AND {low + 30}",
        f"DELETE FROM orders WHERE id BETWEEN {low} AND {low + 3}",
        f"UPDATE orders SET id = id + {MOVED} WHERE id BETWEEN {low} AND {low + 2}",
        f"UPDATE customers SET country = 'XX', email = NULL WHERE id = {low % 500 + 1}",
        f"UPDATE customers SET country = 'DE', email = 'new{low}@shop' WHERE id = {low % 500 + 1}",
    ]
