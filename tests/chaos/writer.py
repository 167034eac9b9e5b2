"""Random changes of a source: inserts, updates, deletes and key changes, in transactions of all sizes, some rolled back, some of XA.

Triggers write one row into the table ``ledger`` for each row that is changed, in the same transaction, so that the ledger counts events.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymysql

from tests.servers import mysql

TABLES = ("orders", "stock", "ledger")

SCHEMA = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, item VARCHAR(60) CHARACTER SET utf8mb4, amount DECIMAL(12,2), at DATETIME(6),"
    " note TEXT CHARACTER SET utf8mb4)",
    "CREATE TABLE stock (shop INT, code VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin, quantity BIGINT UNSIGNED, data VARBINARY(40),"
    " PRIMARY KEY (shop, code))",
    "CREATE TABLE ledger (number BIGINT AUTO_INCREMENT PRIMARY KEY, about VARCHAR(8) CHARACTER SET ascii,"
    " kind CHAR(6) CHARACTER SET ascii)",
    *(
        f"CREATE TRIGGER {table}_{kind} AFTER {kind} ON {table} FOR EACH ROW INSERT INTO ledger (about, kind) VALUES ('{table}', '{kind}')"
        for table in ("orders", "stock")
        for kind in ("insert", "update", "delete")
    ),
)

SIZES = ((1, 3), (1, 3), (1, 3), (20, 200), (20, 200), (1000, 6000))
"""Rows of a statement, least and most, each as often as the others."""

PATIENCE = 120
"""Seconds that a writer tries to reach a server that was killed."""

XA = "auditor-chaos"
"""What the names of this writer's XA transactions begin with."""

REFUSED = (pymysql.err.IntegrityError, pymysql.err.OperationalError, pymysql.err.InternalError)
"""What a statement may fail with: a key that is taken, a deadlock, a server that is gone. The transaction is then rolled back."""


class Writer:
    """Writes into one source, from one thread at a time or from several."""

    tables: Sequence[str] = TABLES
    """The tables that it writes."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.events = 0
        """Rows that were changed and committed, as far as the server could answer."""
        self._random = random.Random(seed)
        self._ids = itertools.count(1)
        self._xids = itertools.count(1)
        self._last_id = 1
        self._lock = threading.Lock()

    def create(self) -> None:
        """Make the tables."""
        with mysql.connect(self.url) as connection, connection.cursor() as cursor:
            for statement in SCHEMA:
                cursor.execute(statement)

    def beat(self) -> None:
        """Commit one small change, if the server answers."""
        try:
            with mysql.connect(self.url) as connection, connection.cursor() as cursor:
                cursor.execute(f"INSERT INTO orders (id, item) VALUES ({self._new_ids(1)[0]}, 'a beat')")
        except pymysql.MySQLError:
            time.sleep(0.1)

    def write(self, events: int, threads: int = 2) -> None:
        """Commit about so many changes, from several sessions side by side."""
        seeds = [self._random.random() for _ in range(threads)]
        running = [threading.Thread(target=self._write, args=(events // threads, random.Random(seed))) for seed in seeds]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    def _write(self, events: int, choice: random.Random) -> None:
        written = 0
        session = Session(self.url)
        while written < events:
            try:
                written += self.transaction(session, choice)
            except REFUSED:
                session.recover()
        session.close()
        with self._lock:
            self.events += written

    def transaction(self, session: Session, choice: random.Random) -> int:
        """Run one transaction and return the number of rows that it changed; 0 if it was rolled back."""
        kind = choice.choices(["commit", "rollback", "savepoint", "xa"], [85, 6, 5, 4])[0]
        statements = list(itertools.islice(self._statements(choice), choice.choice([1, 1, 2, 5])))
        if kind == "xa":
            return self._xa(session, statements, is_commit=choice.random() < 0.7)
        session.execute("BEGIN")
        changed = sum(session.execute(statement) for statement in statements)
        if kind == "savepoint":
            session.execute("SAVEPOINT here")
            session.execute(next(self._statements(choice)))
            session.execute("ROLLBACK TO here")
        session.execute("ROLLBACK" if kind == "rollback" else "COMMIT")
        return 0 if kind == "rollback" else changed

    def _xa(self, session: Session, statements: list[str], is_commit: bool) -> int:
        xid = f"'{XA}-{next(self._xids)}'"
        session.execute(f"XA START {xid}")
        changed = sum(session.execute(statement) for statement in statements)
        session.execute(f"XA END {xid}")
        session.execute(f"XA PREPARE {xid}")
        time.sleep(0.02)  # others commit between
        session.execute(f"XA {'COMMIT' if is_commit else 'ROLLBACK'} {xid}")
        return changed if is_commit else 0

    def _statements(self, choice: random.Random) -> Iterator[str]:
        """Yield random statements."""
        makers: list[Callable[[random.Random, int], str]] = [
            self._insert, self._insert, self._update, self._update, self._move, self._delete,
            self._put, self._put, self._take, self._rename,
        ]  # fmt: skip
        while True:
            least, most = choice.choice(SIZES)
            yield choice.choice(makers)(choice, choice.randint(least, most))

    def _new_ids(self, count: int) -> list[int]:
        with self._lock:
            found = list(itertools.islice(self._ids, count))
            self._last_id = found[-1]
        return found

    def _insert(self, choice: random.Random, rows: int) -> str:
        return f"INSERT INTO orders VALUES {', '.join(_order(choice, number) for number in self._new_ids(rows))}"

    def _span(self, choice: random.Random, rows: int) -> str:
        """Ids of about so many rows: a key change turns the sign of an id, so that no id is ever taken."""
        first = choice.randint(1, max(1, self._last_id - rows))
        sign = choice.choice([1, 1, -1])
        return f"id BETWEEN {first} AND {first + rows}" if sign == 1 else f"id BETWEEN {-first - rows} AND {-first}"

    def _update(self, choice: random.Random, rows: int) -> str:
        change = choice.choice(["amount = amount + 1", "note = NULL", f"item = 'changed {choice.randrange(10**6)}'", "at = NULL"])
        return f"UPDATE orders SET {change} WHERE {self._span(choice, rows)}"

    def _move(self, choice: random.Random, rows: int) -> str:
        return f"UPDATE orders SET id = -id WHERE {self._span(choice, rows)}"

    def _delete(self, choice: random.Random, rows: int) -> str:
        return f"DELETE FROM orders WHERE {self._span(choice, rows // 2)}"

    def _put(self, choice: random.Random, rows: int) -> str:
        values = ", ".join(_stock(choice) for _ in range(rows))
        if choice.random() < 0.5:
            return f"REPLACE INTO stock VALUES {values}"
        return f"INSERT INTO stock VALUES {values} ON DUPLICATE KEY UPDATE quantity = VALUES(quantity), data = NULL"

    def _take(self, choice: random.Random, rows: int) -> str:
        first = choice.randrange(20000)
        return f"DELETE FROM stock WHERE shop = {choice.randrange(8)} AND code BETWEEN 'c{first}' AND 'c{first + rows // 4}'"

    def _rename(self, choice: random.Random, rows: int) -> str:
        first = choice.randrange(20000)
        return f"UPDATE stock SET shop = 7 - shop, quantity = 0 WHERE code BETWEEN 'c{first}' AND 'c{first + rows // 8}'"


def _order(choice: random.Random, number: int) -> str:
    at = f"2026-11-{1 + number % 28:02d} 12:00:00.{number % 10**6:06d}"
    note = choice.choice(["NULL", f"'a note of {number}'", "''"])
    return f"({number}, 'item {choice.randrange(1000)} é', {choice.randrange(10**6) / 100}, '{at}', {note})"


def _stock(choice: random.Random) -> str:
    data = choice.randbytes(choice.randrange(12)).hex()
    return f"({choice.randrange(8)}, 'c{choice.randrange(20000)}', {choice.randrange(1 << 64)}, x'{data}')"


class Session:
    """A connection that is made anew when the server was killed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = self._open()

    def execute(self, statement: str) -> int:
        """Run a statement and return the number of rows that it changed."""
        with self._connection.cursor() as cursor:
            changed: int = cursor.execute(statement)
            return changed

    def recover(self) -> None:
        """Roll back what is open, on a new connection, and what a lost one left prepared."""
        self.close()
        self._connection = self._open()

    def _open(self) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connection = mysql.connect(self._url)
                _decide_left(connection)
                return connection
            except pymysql.MySQLError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        """Close the connection."""
        if self._connection.open:
            self._connection.close()


def _decide_left(connection: Any) -> None:
    """Roll back prepared transactions whose session is gone; those that another session still has cannot be, and are left."""
    with connection.cursor() as cursor:
        cursor.execute("XA RECOVER")
        for _, length, _, name in cursor.fetchall():
            text = name[:length].decode() if isinstance(name, bytes) else str(name)[:length]
            if text.startswith(XA):
                try:
                    cursor.execute(f"XA ROLLBACK '{text}'")
                except pymysql.MySQLError:
                    continue
