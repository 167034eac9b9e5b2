"""A session of ClickHouse: requests over HTTP, each with all the settings that it needs.

The server keeps nothing of it between two requests: no snapshot, no temporary table. A result is sent once the server has all of it
(``wait_end_of_query``), so that an error never comes as the end of one.
https://clickhouse.com/docs/interfaces/http
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from dialects import settings as read_settings
from dialects import wire
from dialects.base import CUT, ColumnBatch, Dialect, Session
from dialects.clickhouse import settings
from dialects.clickhouse.driver import READ_FORMATS, open_client
from dialects.clickhouse.errors import translate_error
from dialects.clickhouse.settings import Setting
from dialects.durations import durations
from dialects.errors import AccessDenied, AuditorError, ResultIncomplete, ServerSilent, StatementCancelled, StatementRefused, Unreachable
from dialects.session import no_answer
from dialects.url import Url
from dialects.wire import Wire, describe_encryption

log = logging.getLogger(__name__)

CANCEL = "KILL QUERY WHERE query_id = {query} ASYNC"
"""Users may end their own statements. https://clickhouse.com/docs/sql-reference/statements/kill#kill-query"""


class ClickHouseSession(Session):
    """A client with one connection of its own, each of whose waits ends on its own."""

    def __init__(self, dialect: Dialect, url: Url) -> None:
        """Connect. Raises errors of ``dialects.errors``."""
        super().__init__(dialect, "ClickHouse")
        self._url = url
        self._wire: Wire | None = None
        self._limits: ExitStack | None = None
        self._earlier_bytes = 0
        self._statement_timeout: float | None = None
        self._settings: dict[str, str] = {}
        self._query_id = ""
        self._number = 0
        self._canceller: threading.Thread | None = None
        self.definitions: dict[str, str] = {}
        """Of tables that are read by parts, how they were defined when these were listed, by their names as SQL text."""
        self.client: Any = None
        with self._waiting(str(url)):
            self.client = open_client(url, url.patience, url.patience, self._connected)
        self.server = f"ClickHouse {self.client.server_version}"

    def _connected(self, socket: Any) -> None:
        """Take the socket of a new connection, which replaces the one before, and bound the wait that goes on."""
        if self._wire is not None:
            self._earlier_bytes += self._wire.bytes_received() or 0
            self._wire.close()
        self._wire = Wire(socket.fileno())
        if self._limits is not None:
            self._limits.enter_context(self._wire.limit(self._limit))
        self.reached = describe_encryption(socket)

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        """Find out which settings the server has, and have it say what they are once they are sent. Raises SessionNotKept."""
        try:
            wanted = settings.PINNED | settings.timeouts(statement_timeout, lock_timeout)
            known = self._read_settings(wanted)
            self._settings = settings.to_send(str(self._url), wanted, known)
            if self._url.option("access_mode", "") == "read_write":
                self._settings |= settings.WRITING
            elif known["readonly"].value == "0":
                self._settings["readonly"] = settings.NO_QUERY_WRITES
            actual = {name: setting.value for name, setting in self._ask_settings([*wanted]).items() if name not in settings.AT_LEAST}
            read_settings.refuse_others(str(self._url), wanted, actual)
        except AuditorError:
            self.close()
            raise
        self.client.timeout = type(self.client.timeout)(connect=self._url.patience, read=statement_timeout + durations().silence_grace)
        self._statement_timeout = statement_timeout
        self.statements = 0

    @property
    def prunes_late(self) -> bool:
        """Whether a filter leaves out partitions of a table only after FINAL has made one row of several versions."""
        return "defer_partition_pruning_after_final" in self._settings

    def _read_settings(self, wanted: Mapping[str, str]) -> dict[str, Setting]:
        """Return those of the wanted settings that the server has, and ``readonly``. Raises ResultIncomplete for a list that was cut."""
        self._settings = dict(settings.UNCUT)
        try:
            known = self._ask_settings([*wanted, "readonly"])
        except AccessDenied:  # a user who may set nothing
            self._settings = {}
            known = self._ask_settings([*wanted, "readonly"])
        if missing := ({*wanted} | {"readonly"}) - {*known} - settings.OF_SOME_VERSIONS:
            raise ResultIncomplete(f"{self._url}: the server does not show its settings {', '.join(sorted(missing))}; {CUT}")
        return known

    def _ask_settings(self, names: Sequence[str]) -> dict[str, Setting]:
        listed = ", ".join(map(self.dialect.names.string_literal, names))
        rows = self.query_listed(f"SELECT name, value, readonly, COUNT(*) OVER () FROM system.settings WHERE name IN ({listed})")
        return {str(name): Setting(str(value), bool(is_locked)) for name, value, is_locked in rows}

    # statements

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return [row for batch in self.stream(sql) for row in zip(*batch, strict=True)]

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        with closing(self._ask(sql)) as blocks:
            while True:
                with self._waiting():  # not while the caller works on a block
                    block = next(blocks, None)
                if block is None:
                    break
                if block and len(block[0]):
                    columns = [_readable(column) for column in block]
                    yield columns
        self.statements += 1

    def execute(self, sql: str) -> None:
        with self._waiting():
            self.client.command(sql, settings=self._request())
        self.statements += 1

    def _ask(self, sql: str) -> Generator[Sequence[Sequence[Any]]]:
        """Send a statement and yield the blocks of its result, each a list of columns."""
        stream = self.client.query_column_block_stream(sql, query_formats=READ_FORMATS, settings=self._request())
        with stream as blocks:
            yield from blocks

    def _request(self) -> dict[str, str]:
        """Return the parameters of a request."""
        self._number += 1
        self._query_id = f"auditor-{id(self):x}-{threading.get_native_id()}-{self._number}"
        return {**self._settings, "wait_end_of_query": "1", "query_id": self._query_id}

    @contextmanager
    def _waiting(self, where: str = "") -> Iterator[None]:
        """Bound the block's wait on the server; re-raise exceptions of the driver as errors of ``dialects.errors``."""
        try:
            with ExitStack() as self._limits:
                if self._wire is not None:
                    self._limits.enter_context(self._wire.limit(self._limit))
                yield
        except Exception as error:
            if self._wire is not None and self._wire.is_cut:  # whatever the driver makes of it
                raise self._cause_of_cut() from error
            known = None if isinstance(error, AuditorError) else translate_error(error, where)
            if where and isinstance(known, Unreachable) and "timed out" in str(error):
                known = no_answer(where, self._url.patience)
            raise known or error from (error if known else error.__cause__)
        finally:
            self._limits = None

    @property
    def _limit(self) -> float:
        return self._url.patience if self._statement_timeout is None else self._statement_timeout + durations().silence_grace

    def _cause_of_cut(self) -> AuditorError:
        assert self._wire is not None
        if self._wire.is_flooded:
            return StatementRefused(
                f"{self._url}: the server sent more than {wire.LARGEST_ANSWER >> 20:,} MiB in one answer, which is not read;"
                " exclude the column of such values"
            )
        if self._wire.is_hastened:
            return StatementCancelled(f"a statement was cancelled, and the server did not end it within {durations().cancel_grace:g} s")
        if self._statement_timeout is None:
            return no_answer(str(self._url), self._url.patience)
        return ServerSilent(
            f"{self._url}: no answer within {self._limit:g} s to a statement that the server itself should have ended after"
            f" {self._statement_timeout:g} s; check that it is not stuck, and what is between it and this host"
        )

    def cancel(self) -> None:
        """Ask the server, in a thread that nobody waits for, to cancel the running statement; no effect if none runs.

        A statement that has not ended ``cancel_grace`` seconds later loses its connection.
        """
        current = self._wire
        if current is not None and current.hasten(durations().cancel_grace) and (self._canceller is None or not self._canceller.is_alive()):
            self._canceller = threading.Thread(target=self._request_cancel, args=(self._query_id,), name="cancel", daemon=True)
            self._canceller.start()

    def _request_cancel(self, query_id: str) -> None:
        try:
            with closing(open_client(self._url, self._url.patience, self._url.patience, lambda _: None)) as helper:
                helper.command(CANCEL.format(query=self.dialect.names.string_literal(query_id)))
        except Exception as error:  # the statement may have ended meanwhile; else its connection is cut
            log.info("a statement could not be cancelled: %s", error, extra={"action": "cancel_failed"})

    def close(self) -> None:
        if self._wire is not None:
            self._earlier_bytes += self._wire.bytes_received() or 0
        with suppress(Exception):  # the connection may be lost already
            if self.client is not None:
                self.client.http.clear()
                self.client.close()
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def bytes_received(self) -> int:
        now = None if self._wire is None else self._wire.bytes_received()
        return self._earlier_bytes + (now or 0)


def _readable(column: Sequence[Any]) -> Sequence[Any]:
    """Return a column with its texts as such. Bytes that are no UTF-8 are written as escapes: hashes are of the bytes themselves."""
    if not isinstance(next((value for value in column if value is not None), None), bytes):
        return column
    return [None if value is None else value.decode("utf-8", "backslashreplace") for value in column]
