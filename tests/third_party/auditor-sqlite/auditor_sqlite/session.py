"""A session on a file of SQLite, in this process. https://docs.python.org/3/library/sqlite3.html"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from auditor_sqlite.functions import register
from dialects import ColumnBatch, Dialect, Url, errors
from dialects.session import FETCHED_ROWS, InProcessSession, text_length


def open_connection(url: Url, lock_timeout: float) -> sqlite3.Connection:
    """Open a file, for reading unless the URL says ``access_mode=read_write``. Raises errors of ``dialects.errors``."""
    is_memory = not url.database
    writes = url.option("access_mode", "read_only") == "read_write"
    name = "file::memory:" if is_memory else f"file:{quote(url.database)}?mode={'rwc' if writes else 'ro'}"
    try:
        connection = sqlite3.connect(name, timeout=lock_timeout, isolation_level=None, check_same_thread=False, uri=True)
    except sqlite3.Error as error:
        raise errors.NoSuchObject(f"{url}: {error}") from error
    register(connection)
    return connection


class SQLiteSession(InProcessSession):
    """A connection to a file."""

    def __init__(self, dialect: Dialect, server: str, connection: sqlite3.Connection, timeout: float) -> None:
        super().__init__(dialect, server, timeout)
        self.connection = connection

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._translated():
            rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        self._result_bytes += text_length(rows)
        return rows

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        with self._translated():
            cursor = self.connection.execute(sql)
        while True:
            with self._translated():
                rows = cursor.fetchmany(FETCHED_ROWS)
            if not rows:
                break
            self._result_bytes += text_length(rows)
            yield list(zip(*rows, strict=True))

    def execute(self, sql: str) -> None:
        with self._translated():
            self.connection.execute(sql)

    def cancel(self) -> None:
        self.connection.interrupt()

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Limit the time of the block, and raise the driver's errors as those of ``dialects.errors``."""
        with self.time_limit():
            try:
                yield
            except sqlite3.Error as error:
                raise _translate(error) from error


def _translate(error: sqlite3.Error) -> errors.AuditorError:
    text = str(error)
    if text == "interrupted":
        return errors.StatementCancelled()
    if "database is locked" in text:
        return errors.LockTimeout()
    return (errors.NoSuchObject if text.startswith("no such ") else errors.StatementRefused)(text)
