"""Transfers between accounts in many tables, and readers of the targets who sum up all of them again and again.

Each transaction moves amounts between rows of several tables, so that the sum over all tables is the same after each of them, and writes
what it moved into the table ``ledger``. Tables are altered meanwhile, by a list of statements that are spread over the transfers.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import pymysql
from pymysql.constants import ER

from auditor.errors import AuditorError
from dialects import Dialect
from tests.chaos.writer import Session, Writer
from tests.servers import mysql

ACCOUNTS = 20
"""Rows of each table."""

BEGUN_WITH = 1_000
"""What each account has before the first transfer."""

UNCOUNTED = "dated"
"""One more table, which no sum has."""

DONE_ALREADY = (ER.DUP_FIELDNAME, ER.CANT_DROP_FIELD_OR_KEY, ER.BAD_FIELD_ERROR)
"""What a statement that alters a table fails with if the server was killed after it."""


class Transfers(Writer):
    """Writes transfers into one source."""

    def __init__(self, url: str, seed: int, tables: int) -> None:
        super().__init__(url, seed)
        self.accounts = [f"accounts_{number:03d}" for number in range(tables)]
        self.tables = [*self.accounts, "ledger", UNCOUNTED]
        self._changed, self._statements_every = 0, 0
        self._alterations = deque[str]()
        self._altered = 0
        self._altering = threading.Lock()

    @property
    def total(self) -> int:
        """The sum over all accounts."""
        return len(self.accounts) * ACCOUNTS * BEGUN_WITH

    def create(self) -> None:
        """Make the tables; the accounts come with `fund`."""
        with mysql.connect(self.url) as connection, connection.cursor() as cursor:
            for table in self.accounts:
                cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, amount BIGINT NOT NULL)")
            cursor.execute(
                "CREATE TABLE ledger (number BIGINT AUTO_INCREMENT PRIMARY KEY, source VARCHAR(20) CHARACTER SET ascii,"
                " target VARCHAR(20) CHARACTER SET ascii, amount BIGINT)"
            )
            cursor.execute(f"CREATE TABLE {UNCOUNTED} (id INT PRIMARY KEY, day DATE)")

    def fund(self) -> None:
        """Open all accounts in one transaction."""
        with mysql.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for table in self.accounts:
                cursor.execute(f"INSERT INTO {table} VALUES {', '.join(f'({number}, {BEGUN_WITH})' for number in range(ACCOUNTS))}")
            cursor.execute(f"INSERT INTO {UNCOUNTED} VALUES (1, '2024-02-29')")
            cursor.execute("COMMIT")

    def alter(self, statements: Sequence[str], events: int) -> None:
        """Run these statements one after the other, evenly spread over about so many changes."""
        self._alterations.extend(statements)
        self._statements_every = max(1, events // (len(statements) + 1))

    @property
    def altered(self) -> int:
        """How many of these statements were run."""
        return self._altered

    def beat(self) -> None:
        """Commit one transfer of nothing, if the server answers."""
        try:
            with mysql.connect(self.url) as connection, connection.cursor() as cursor:
                cursor.execute("INSERT INTO ledger (source, target, amount) VALUES ('accounts_000', 'accounts_000', 0)")
        except pymysql.MySQLError:
            pass  # the server was killed, and comes again

    def transaction(self, session: Session, choice: random.Random) -> int:
        """Run one transaction, and return how many rows it changed."""
        if self._is_alteration_due():
            self._alter(session)
        session.execute("BEGIN")
        changed = 0
        for _ in range(choice.choice([1, 1, 2, 5])):
            source, target = sorted(choice.sample(self.accounts, 2), reverse=choice.random() < 0.5)
            amount, row, other = choice.randrange(1, 50), choice.randrange(ACCOUNTS), choice.randrange(ACCOUNTS)
            changed += session.execute(f"UPDATE {source} SET amount = amount - {amount} WHERE id = {row}")
            changed += session.execute(f"UPDATE {target} SET amount = amount + {amount} WHERE id = {other}")
            changed += session.execute(f"INSERT INTO ledger (source, target, amount) VALUES ('{source}', '{target}', {amount})")
        session.execute("ROLLBACK" if choice.random() < 0.05 else "COMMIT")
        with self._altering:
            self._changed += changed
        return changed

    def _is_alteration_due(self) -> bool:
        return bool(self._alterations) and self._changed > self._statements_every * (self._altered + 1)

    def _alter(self, session: Session) -> None:
        """Run the next statement that is due; it stays the next one if the server is killed during it."""
        with self._altering:
            if not self._is_alteration_due():
                return
            try:
                session.execute(self._alterations[0])
            except pymysql.OperationalError as error:
                if error.args[0] not in DONE_ALREADY:
                    raise
            self._alterations.popleft()
            self._altered += 1

    def sum_of(self, dialect: Dialect, schema: str) -> str:
        """Return the statement that sums up all accounts of a target."""
        tables = (dialect.names.table(schema, name) for name in self.accounts)
        return f"SELECT SUM(amount) FROM ({' UNION ALL '.join(f'SELECT amount FROM {table}' for table in tables)}) every_account"


class Reader(threading.Thread):
    """Asks a target for one number, again and again, until it is stopped."""

    def __init__(self, ask: Callable[[], Any], every: float) -> None:
        super().__init__(name="reader", daemon=True)
        self._ask, self._every = ask, every
        self._stopped = threading.Event()
        self.answers: Counter[int] = Counter()
        """How often each sum was seen; 0 of empty tables."""
        self.unanswered = 0
        """How often there was no answer: the target was killed, or a table is missing."""

    def run(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self.answers[int(self._ask() or 0)] += 1
            except AuditorError:
                self.unanswered += 1

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        self.join()


def balances(writer: Transfers, rows: Sequence[tuple[Any, ...]]) -> dict[str, int]:
    """Return what each table holds in all, by the ledger's rows: source, target, amount."""
    held = dict.fromkeys(writer.accounts, ACCOUNTS * BEGUN_WITH)
    for source, target, amount in rows:
        held[str(source)] -= int(amount)
        held[str(target)] += int(amount)
    return held
