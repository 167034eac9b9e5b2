"""Base classes of sessions: over a DB-API driver, and for engines that run in this process.

``stream`` yields results in batches of columns, so that callers can build arrays without an object per row.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from dialects import timers, wire
from dialects.base import ColumnBatch, Dialect, Loading, Session
from dialects.durations import durations
from dialects.errors import (
    AuditorError,
    ServerSilent,
    SessionSwitched,
    StatementCancelled,
    StatementRefused,
    StatementTimeout,
    Unreachable,
)
from dialects.wire import Wire

T = TypeVar("T")
log = logging.getLogger(__name__)

FETCHED_ROWS = 2048
"""Rows per batch of a streamed result."""

MOST_CHANGES = 4
"""Most of what is not as it was that a message names."""

_TIMED_OUT = re.compile("timed out|timeout expired|connection time out")
"""How the drivers say that no answer came while a connection was made."""

_CURSORS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Driver:
    """How a session uses its DB-API driver."""

    where: str
    """The URL without its password, for messages."""
    patience: float
    """Seconds that the server may take for each answer while a connection is made."""
    log_in: Callable[[], Any]
    """Opens a connection in autocommit mode, and fails if the server stays silent for ``patience`` seconds."""
    file_descriptor: Callable[[Any], int]
    """Returns the file descriptor of a connection's socket."""
    translate_error: Callable[[BaseException, str], AuditorError | None]
    """Returns the error of ``dialects.errors`` for an exception of the driver, and None for any other exception; the text is ``where``
    while a connection is made, else empty."""

    def connect(self) -> Any:
        """Return a new connection. Raises errors of ``dialects.errors``."""
        try:
            return self.log_in()
        except Exception as error:
            known = self.translate_error(error, self.where)
            if known and _TIMED_OUT.search(str(error)):
                known = self.no_answer()
            raise known or error from error

    def no_answer(self) -> Unreachable:
        """Return the error of a server that stays silent while a connection is made."""
        return no_answer(self.where, self.patience)


def no_answer(where: str, patience: float) -> Unreachable:
    """Return the error of a server that says nothing for ``patience`` seconds while a connection is made; ``where`` is its URL."""
    return Unreachable(
        f"{where}: no answer within {patience:g} s while connecting; check host, port and network, and that the server is not stuck;"
        " a slow one needs ?connect_timeout=SECONDS in its URL"
    )


class DriverSession(Session):
    """A session over a DB-API connection, each of whose waits ends on its own.

    While it is pinned the server has to answer within the driver's ``patience``; from ``wait_for_statements`` on it may take as long
    as a statement may run.

    What is between may pass single statements on to other sessions of the server, or of another server, without an error. So within a
    snapshot each statement has to be answered from inside a transaction, which costs nothing, and where the snapshot begins and ends
    ``hold`` asks what answers whether it is still this session, with the settings that were made when it was opened.
    """

    mark = ""
    """A text that the session is given when it begins, and no other has."""
    server_place = ""
    """Where the server says that it is, beyond what is between; empty where it does not."""
    in_snapshot = False
    """Whether a snapshot is open that this session began."""

    def __init__(self, dialect: Dialect, server: str, connection: Any, driver: Driver) -> None:
        super().__init__(dialect, server)
        self.connection = connection
        self.driver = driver
        self.mark = secrets.token_hex(8)
        self._wire = Wire(driver.file_descriptor(connection))
        self._statement_timeout: float | None = None
        self._canceller: threading.Thread | None = None
        self._result_size = 0
        self._socket_bytes = 0

    def wait_for_statements(self, statement_timeout: float) -> None:
        """Let the server take as long for each answer from now on as a statement may run, and a little longer."""
        self._statement_timeout = statement_timeout
        self.statements = 0

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Close the session if the block, which makes it ready, fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @property
    def statement_timeout(self) -> float | None:
        """Seconds that a statement may run; None while the session is pinned."""
        return self._statement_timeout

    def wait_at_most(self, seconds: float) -> AbstractContextManager[None]:
        """Cut the connection if the block lasts longer, whatever it does."""
        return self._wire.limit(seconds)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Bound the block's wait on the server; re-raise exceptions of the driver as errors of ``dialects.errors``."""
        began = time.monotonic()
        try:
            with self._wire.limit(self._limit):
                yield
        except Exception as error:
            if self._wire.is_cut:  # whatever the driver makes of it
                raise self._cause_of_cut() from error
            if isinstance(error, AuditorError):
                raise
            known = self.driver.translate_error(error, "")
            if known is None:
                raise
            if isinstance(known, StatementCancelled) and not self._wire.is_hastened:
                known = self.explain_cancelled(known, time.monotonic() - began)
            raise known from error
        if self._wire.is_flooded:  # by an answer that came as a whole before anybody looked
            raise self._cause_of_cut()

    def explain_cancelled(self, error: StatementCancelled, seconds: float) -> AuditorError:
        """Return the error of a statement that ended as cancelled after so many seconds, although this process did not cancel it."""
        return error

    @property
    def _limit(self) -> float:
        return self.driver.patience if self._statement_timeout is None else self._statement_timeout + durations().silence_grace

    def _cause_of_cut(self) -> AuditorError:
        if self._wire.is_flooded:
            return StatementRefused(
                f"{self.driver.where}: the server sent more than {wire.LARGEST_ANSWER >> 20:,} MiB in one answer, which is not read;"
                " exclude the column of such values"
            )
        if self._wire.is_hastened:
            return StatementCancelled(f"a statement was cancelled, and the server did not end it within {durations().cancel_grace:g} s")
        if self._statement_timeout is None:
            return self.driver.no_answer()
        return ServerSilent(
            f"{self.driver.where}: no answer within {self._limit:g} s to a statement that the server itself should have ended after"
            f" {self._statement_timeout:g} s; check that it is not stuck, and what is between it and this host"
        )

    def begin(self) -> None:
        """Open a consistent read-only snapshot. Raises SessionSwitched if it is another session's; this one is closed then."""
        super().begin()
        self.begin_holding()

    def begin_holding(self) -> None:
        """Hold the snapshot that was opened from here on. Raises SessionSwitched as ``begin`` does."""
        self.in_snapshot = True
        self.hold(in_snapshot=True)

    def end(self) -> None:
        """Close the snapshot. Raises SessionSwitched if what was read in it may be of several sessions; the session is closed then."""
        was_open, self.in_snapshot = self.in_snapshot, False
        has_failed = was_open and self.transaction() == "failed"  # it answers nothing until it has ended
        if was_open and not has_failed:
            try:
                self.hold(in_snapshot=True)
            except SessionSwitched:
                raise
            except AuditorError:
                with suppress(AuditorError):  # the first error matters more
                    super().end()
                raise
        super().end()
        if has_failed:
            self.hold(in_snapshot=False)

    def transaction(self) -> Literal["none", "open", "failed", "unknown"]:
        """Return in what state of a transaction the server was when it answered the last statement, as the driver knows it."""
        return "unknown"

    def hold(self, *, in_snapshot: bool) -> None:
        """Raise SessionSwitched, and close the session, unless what answers is still this session, with the settings that it was given."""
        if changes := self.find_changes(in_snapshot=in_snapshot):
            raise self.switched(f"what answers now is another session, or one without its settings: {'; '.join(changes[:MOST_CHANGES])}")

    def find_changes(self, *, in_snapshot: bool) -> list[str]:
        """Ask the server, in one statement, which session answers, and return what is not as it was when it began, as clauses."""
        return []

    def switched(self, what: str) -> SessionSwitched:
        """Close the session, and return the error that says so; ``what`` is a clause."""
        self.in_snapshot = False
        self.close()
        return SessionSwitched(
            f"{self.driver.where}: {what}. Something between this host and the server passes statements of one session on to several, or"
            " resets it, so that nothing of what was read counts; connect to the server itself, or let what is between keep this user's"
            " sessions as they are"
        )

    def check_snapshot_answered(self) -> None:
        """Raise SessionSwitched if a statement of the open snapshot was answered from outside its transaction."""
        if self.in_snapshot and self.transaction() == "none":
            raise self.switched("a statement of a snapshot was answered from outside the snapshot's transaction")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self._fetch(sql)[1]

    def query_dicts(self, sql: str) -> list[dict[str, Any]]:
        """Run a statement and return its rows by column name, for statements whose columns differ between server versions."""
        names, rows = self._fetch(sql)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _fetch(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        with self.waiting():
            cursor = self.connection.cursor()
            try:
                cursor.execute(sql)
                rows = [tuple(row) for row in cursor.fetchall()]
                names = [str(column[0]) for column in cursor.description or ()]
            finally:
                with suppress(Exception):  # an error of the statement itself must not be replaced by one of closing
                    cursor.close()
        self.check_snapshot_answered()
        self._count(rows)
        return names, rows

    def describe_result(self, sql: str, read: Callable[[Any], T]) -> T:
        """Run a statement and return what ``read`` finds of its result's columns in the driver's cursor; its rows are not fetched."""
        with self.waiting():
            cursor = self.connection.cursor()
            try:
                cursor.execute(sql)
                found = read(cursor)
            finally:
                with suppress(Exception):
                    cursor.close()
        self.check_snapshot_answered()
        self.statements += 1
        return found

    def execute(self, sql: str) -> None:
        with self.waiting():
            cursor = self.connection.cursor()
            try:
                cursor.execute(sql)
            finally:
                with suppress(Exception):
                    cursor.close()
        self.check_snapshot_answered()
        self.statements += 1

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        with closing(self.pass_on(self.fetch_batches(sql))) as batches:
            for rows in batches:
                self._result_size += text_length(rows)
                yield list(zip(*rows, strict=True))

    def pass_on(self, batches: Generator[T]) -> Generator[T]:
        """Yield what the driver fetches in batches, each of which is waited for as long as a statement may run, and count the statement."""
        try:
            while True:
                with self.waiting():  # not while the caller works on a batch
                    batch = next(batches, None)
                self.check_snapshot_answered()
                if batch is None:
                    break
                yield batch
        finally:
            with self.waiting():
                batches.close()
        self.statements += 1

    @abstractmethod
    def fetch_batches(self, sql: str) -> Generator[list[tuple[Any, ...]]]:
        """Run a statement and yield its rows in batches, through a cursor that does not load the whole result into memory."""

    def cancel(self) -> None:
        """Ask the server, in a thread that nobody waits for, to cancel the running statement; no effect if none runs.

        A statement that has not ended ``cancel_grace`` seconds later loses its connection.
        """
        if self._wire.hasten(durations().cancel_grace) and (self._canceller is None or not self._canceller.is_alive()):
            self._canceller = threading.Thread(target=self._request_cancel, name="cancel", daemon=True)
            self._canceller.start()

    def _request_cancel(self) -> None:
        try:
            with closing(self.driver.connect()) as helper, closing(Wire(self.driver.file_descriptor(helper))) as line:
                with line.limit(self.driver.patience):
                    helper.cursor().execute(self.cancel_statement())
                ending = self.terminate_statement()
                if ending and not self._wire.is_silent(durations().cancel_grace / 2):
                    with line.limit(self.driver.patience):
                        helper.cursor().execute(ending)
        except Exception as error:  # the statement may have ended meanwhile; else its connection is cut
            log.info("a statement could not be cancelled: %s", error, extra={"action": "cancel_failed"})

    @abstractmethod
    def cancel_statement(self) -> str:
        """Return the statement that cancels this session's running statement from another session."""

    def terminate_statement(self) -> str:
        """Return the statement that ends this whole session, from another, where cancelling may fail; empty where it does not."""
        return ""

    def close(self) -> None:
        self.bytes_received()  # reads the socket's counter while the socket exists
        with suppress(Exception):  # the connection may be lost already
            self.connection.close()
        self._wire.close()

    def bytes_received(self) -> int:
        self._socket_bytes = self._wire.bytes_received() or self._socket_bytes  # the last count remains once it is closed
        return self._socket_bytes or self._result_size

    def _count(self, rows: list[tuple[Any, ...]]) -> None:
        self.statements += 1
        self._result_size += text_length(rows)


def text_length(rows: list[tuple[Any, ...]]) -> int:
    """Return the number of characters of all values: the size of a result if the kernel does not count the socket's bytes."""
    return sum(len(value if isinstance(value, str) else str(value)) for row in rows for value in row)


def fetch_through_cursor(
    cursor: Any, sql: str, rows_at_once: int = FETCHED_ROWS, *, several_statements: bool = False
) -> Iterator[list[tuple[Any, ...]]]:
    """Run a statement through a server-side cursor and yield its rows in batches. Needs an open transaction.

    A server begins to work at the first FETCH. With ``several_statements``, as PostgreSQL takes them, that is sent together with the
    declaration, so that the server waits neither for a round trip nor for a process that is busy with its other side; and nothing is asked
    for behind fewer rows than were. Of Redshift no document says that fewer are the last, so there only no rows are the end.

    Every cursor gets a new name: Amazon's driver caches column descriptions by statement text, so a FETCH with the same text would be
    read with the columns of an earlier result.
    https://www.postgresql.org/docs/current/sql-fetch.html, https://docs.aws.amazon.com/redshift/latest/dg/declare.html
    """
    name = f"audit_rows_{next(_CURSORS)}"
    declare, fetch = f"DECLARE {name} CURSOR FOR {sql}", f"FETCH FORWARD {rows_at_once} FROM {name}"
    if not several_statements:
        cursor.execute(declare)
    try:
        cursor.execute(f"{declare};\n{fetch}" if several_statements else fetch)
        while rows := [tuple(row) for row in cursor.fetchall()]:
            yield rows
            if several_statements and len(rows) < rows_at_once:
                break
            cursor.execute(fetch)
    finally:
        with suppress(Exception):  # an error has ended the transaction and its cursors
            cursor.execute(f"CLOSE {name}")


class DriverLoading(Loading):
    """How rows are written over a driver's connection."""

    def __init__(self, session: DriverSession) -> None:
        self.session = session

    def write(self, sql: str) -> int:
        with self.session.waiting():
            cursor = self.session.connection.cursor()
            try:
                cursor.execute(sql)
                changed = int(cursor.rowcount)
            finally:
                with suppress(Exception):
                    cursor.close()
        self.session.statements += 1
        return changed

    def analyze(self, table: str) -> str:
        self.session.execute(self.session.dialect.writing.ANALYZE.format(table=table))
        return ""


class InProcessSession(Session):
    """A session of an engine in this process. Such engines have no statement timeout, so a thread cancels statements."""

    def __init__(self, dialect: Dialect, server: str, timeout: float) -> None:
        super().__init__(dialect, server)
        self._timeout = timeout
        self._result_bytes = 0

    @contextmanager
    def time_limit(self) -> Iterator[None]:
        """Cancel the statement in this block after the timeout; the error that it then fails with becomes StatementTimeout."""
        timed_out, finished, cancelling = threading.Event(), threading.Event(), threading.Lock()

        def cancel_until_finished() -> None:
            timed_out.set()
            while True:
                with cancelling:
                    if finished.is_set():
                        return
                    with suppress(Exception):  # the error of the statement itself is reported
                        self.cancel()
                finished.wait(0.5)  # then again: a cancellation before the statement has started has no effect

        try:
            with timers.of_process.after(self._timeout, cancel_until_finished):
                yield
        except AuditorError:
            if timed_out.is_set():
                raise StatementTimeout(f"a statement ran longer than {self._timeout:g} s and was cancelled") from None
            raise
        finally:
            finished.set()
            with cancelling:  # it must not be the next statement that is cancelled
                pass
        self.statements += 1

    def bytes_received(self) -> int:
        return self._result_bytes
