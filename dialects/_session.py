"""An open connection to one engine, behind one small surface, so that nothing above knows a driver.

Results come column by column in batches, so that a reader can turn them into arrays without an object per row.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dialects._errors import AuditorError, StatementTimeout

if TYPE_CHECKING:
    from dialects._base import Dialect

Columns = list[Sequence[Any]]
"""One batch of a result: a sequence of equal length per column."""

BATCH_ROWS = 2048
"""Rows that a streaming cursor hands over at a time."""

_CURSORS = itertools.count(1)

_TCP_INFO_BYTES_RECEIVED = 128
"""Offset of tcpi_bytes_received in Linux's struct tcp_info (include/uapi/linux/tcp.h)."""


class Session(ABC):
    """One connection: pinned, read-only, used by one thread at a time; only ``cancel`` may be called from another."""

    def __init__(self, dialect: Dialect, server: str) -> None:
        self.dialect = dialect
        self.server = server
        """What the server says of itself: name and version."""
        self.statements = 0
        """How many statements have run here since the pins were set."""

    @abstractmethod
    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement with a small result and return its rows."""

    @abstractmethod
    def stream(self, sql: str) -> Iterator[Columns]:
        """Run a statement and hand over its result batch by batch."""

    @abstractmethod
    def execute(self, sql: str) -> None:
        """Run a statement that has no result."""

    @abstractmethod
    def cancel(self) -> None:
        """End the statement that runs now, on the server; harmless if none runs."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; harmless if it is lost."""

    @abstractmethod
    def received(self) -> int:
        """Bytes that came over the wire so far (the results' own size for an engine inside the process)."""

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        """Fix what results depend on. A session that cannot be pinned is closed, and the error raised."""
        try:
            for statement in self.dialect.pins(statement_timeout, lock_timeout):
                self.execute(statement)
        except AuditorError:
            self.close()
            raise
        self.statements = 0

    def siblings(self, count: int, table: str) -> list[Session]:
        """Up to ``count`` further sessions inside this one's snapshot of ``table``; none where the engine cannot share one.

        Called inside the snapshot, which may be replaced by a younger one that all of them read.
        """
        return []

    def begin(self) -> None:
        """Open a consistent read-only snapshot, as far as the engine has them."""
        for statement in self.dialect.BEGIN:
            self.execute(statement)

    def end(self) -> None:
        """Close the snapshot."""
        for statement in self.dialect.END:
            self.execute(statement)


def socket_bytes(handle: int) -> int | None:
    """Bytes received so far on an open TCP socket, as the kernel counts them; None where it cannot say."""
    with suppress(OSError, AttributeError, struct.error):
        shared = socket.fromfd(handle, socket.AF_INET, socket.SOCK_STREAM)
        try:
            info = shared.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            return int(struct.unpack_from("=Q", info, _TCP_INFO_BYTES_RECEIVED)[0])
        finally:
            shared.close()
    return None


class DriverSession(Session):
    """A session over a DB-API connection.

    ``translate`` turns an exception of the driver into an error of the tree, or None for one that is not the driver's.
    ``handle`` gives the file descriptor of the connection's socket.
    """

    def __init__(
        self,
        dialect: Dialect,
        server: str,
        connection: Any,
        translate: Callable[[BaseException], AuditorError | None],
        handle: Callable[[], int],
    ) -> None:
        super().__init__(dialect, server)
        self.connection = connection
        self._translate = translate
        self._handle = handle
        self._result_bytes = 0
        self._last_seen = 0

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Driver errors leave this block as errors of the tree, their cause kept."""
        try:
            yield
        except AuditorError:
            raise
        except Exception as error:
            known = self._translate(error)
            if known is None:
                raise
            raise known from error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self._asked(sql)[1]

    def named(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a statement by their columns' names, for what shows other columns from version to version."""
        names, rows = self._asked(sql)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _asked(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        with self.translated():
            cursor = self.connection.cursor()
            try:
                cursor.execute(sql)
                rows = [tuple(row) for row in cursor.fetchall()]
                names = [str(column[0]) for column in cursor.description or ()]
            finally:
                with suppress(Exception):  # the statement's own error matters more than a failed clean-up
                    cursor.close()
        self._count(rows)
        return names, rows

    def execute(self, sql: str) -> None:
        with self.translated():
            cursor = self.connection.cursor()
            try:
                cursor.execute(sql)
            finally:
                with suppress(Exception):
                    cursor.close()
        self.statements += 1

    def stream(self, sql: str) -> Iterator[Columns]:
        with self.translated():
            for rows in self.batches(sql):
                self._result_bytes += _text_size(rows)
                yield list(zip(*rows, strict=True))
        self.statements += 1

    @abstractmethod
    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a statement through a cursor that does not hold its whole result."""

    def close(self) -> None:
        self.received()  # the count ends with the socket
        with suppress(Exception):  # the server or the network may be gone already
            self.connection.close()

    def received(self) -> int:
        with suppress(Exception):  # a closed connection has no descriptor: what was last seen stands
            counted = socket_bytes(self._handle())
            if counted is not None:
                self._last_seen = counted
        return self._last_seen or self._result_bytes

    def _count(self, rows: list[tuple[Any, ...]]) -> None:
        self.statements += 1
        self._result_bytes += _text_size(rows)


def _text_size(rows: list[tuple[Any, ...]]) -> int:
    """The characters of a result's values: what its size is taken for where the kernel does not count a socket's bytes."""
    return sum(len(str(value)) for row in rows for value in row)


def declared(cursor: Any, sql: str, rows_at_once: int = BATCH_ROWS) -> Iterator[list[tuple[Any, ...]]]:
    """A result piece by piece through a cursor on the server, which needs an open transaction.

    Each cursor has a name of its own: Amazon's driver keeps what it learned of a statement by its text, and would expect the
    columns of an earlier result from a FETCH that reads the same.
    https://www.postgresql.org/docs/current/sql-declare.html, https://docs.aws.amazon.com/redshift/latest/dg/declare.html
    """
    name = f"audit_rows_{next(_CURSORS)}"
    cursor.execute(f"DECLARE {name} CURSOR FOR {sql}")
    try:
        while True:
            cursor.execute(f"FETCH FORWARD {rows_at_once} FROM {name}")
            rows = [tuple(row) for row in cursor.fetchall()]
            if not rows:
                break
            yield rows
    finally:
        with suppress(Exception):  # after an error the transaction, and the cursor with it, is gone
            cursor.execute(f"CLOSE {name}")


class InProcessSession(Session):
    """A session of an engine inside this process, which has no statement timeout of its own: a timer cancels."""

    def __init__(self, dialect: Dialect, server: str, timeout: float) -> None:
        super().__init__(dialect, server)
        self._timeout = timeout
        self._bytes = 0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Cancel what runs in this block when its time is up; whatever error it ends with then is a StatementTimeout."""
        over, ended = threading.Event(), threading.Event()

        def watch() -> None:
            if ended.wait(self._timeout):
                return
            over.set()
            while not ended.is_set():
                with suppress(Exception):  # what the statement itself ends with is what counts
                    self.cancel()
                ended.wait(0.5)  # then again: one that came before the statement had begun is lost

        watchman = threading.Thread(target=watch, daemon=True)
        watchman.start()
        try:
            yield
        except AuditorError:
            if over.is_set():
                raise StatementTimeout(f"a statement ran longer than {self._timeout:g} s and was cancelled") from None
            raise
        finally:
            ended.set()
            watchman.join()
        self.statements += 1

    def received(self) -> int:
        return self._bytes
