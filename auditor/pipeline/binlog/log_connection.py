"""Ask a server for its binary log and receive it, packet by packet.

The request is that of a replica (COM_BINLOG_DUMP). It is never one of a semi-synchronous replica, for which commits on the source would
wait. https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_binlog_dump.html

How long it waits before a lost connection is opened again, and for a silent server: ``log_...`` in `auditor/durations.py`.
"""

from __future__ import annotations

import logging
import random
import re
import struct
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from auditor.background import Backoff
from auditor.durations import durations
from auditor.errors import (
    AccessDenied,
    AuditorError,
    ChangeStreamError,
    ConnectionLost,
    LogRefused,
    PositionLost,
    ReaderReplaced,
    Unreachable,
)
from auditor.pipeline.binlog.event_types import HEADER, LONGEST_EVENT, MALFORMED
from auditor.pipeline.events import FIRST_OFFSET, Place
from dialects import extras
from dialects.mysql import driver
from dialects.mysql.errors import driver_errors, translate_error
from dialects.mysql.expressions import MySQLNames
from dialects.mysql.login import MySQLAddresses, open_connection
from dialects.mysql.session import server_version
from dialects.url import parse_url

if TYPE_CHECKING:
    from auditor.config import Settings

log = logging.getLogger(__name__)

CHUNK = 1 << 20
PACKET_HEAD = 4
"""Bytes before a packet: three of its length, and its number."""
MAX_PACKET = 0xFFFFFF
NON_BLOCKING = 1
"""Flag of the request: end at the end of the log instead of waiting for more."""
COM_BINLOG_DUMP = 0x12

_SIZE = struct.Struct("<I")
"""The size of an event, in its header."""

_GONE = re.compile(r"Could not find first log file|purged|could not find next log", re.IGNORECASE)
_REPLACED = re.compile(r"same server_uuid/server_id", re.IGNORECASE)
_NO_BOUNDARY = re.compile(
    r"impossible position|> file size|truncated|max_allowed_packet|bogus data|invalid event|checksum|crc|corrupt|Error reading|reading log"
    r"|beyond|bad magic",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A server whose binary log is read."""

    url: str = field(repr=False)
    name: str
    """The connection's name in auditor.yaml, for messages."""

    def connect(self) -> Any:
        """Return a new connection of PyMySQL. Raises errors of ``auditor.errors``."""
        extras.require("the binary log of MySQL or MariaDB", "mysql")
        url = parse_url(self.url)
        try:
            return open_connection(url, MySQLAddresses.DEFAULT_PORT)
        except Exception as error:
            known = translate_error(error, f"connection {self.name}")
            raise known or error from error

    def name_types(self, database: str, table: str) -> dict[str, str]:
        """Return the types of a table's columns as the catalogue prints them now, by name. Raises errors of ``auditor.errors``."""
        return self._describe_columns(database, table, "LOWER(column_type)")

    def computed_columns(self, database: str, table: str) -> dict[str, str]:
        """Return what computes each of a table's columns that it has now, by name; '' for those with values of their own."""
        return self._describe_columns(database, table, "COALESCE(generation_expression, '')")

    def _describe_columns(self, database: str, table: str, what: str) -> dict[str, str]:
        literal = MySQLNames().string_literal
        wanted = f"table_schema = {literal(database)} AND table_name = {literal(table)}"
        sql = f"SELECT column_name, {what} FROM information_schema.columns WHERE {wanted}"
        with closing(self.connect()) as connection:
            rows = query(connection, sql)
        return {str(name): value.decode() if isinstance(value, bytes) else str(value) for name, value in rows}


def source_of(settings: Settings, name: str) -> Source:
    """Return the source of a pipeline. Raises UnknownPipeline, and ConfigError if it reads topics."""
    connection = settings.pipeline(name).of_log("a log").connection
    return Source(settings.connections[connection].url, connection)


@dataclass(frozen=True, slots=True)
class LogStatus:
    """What a server says of its binary log."""

    end: Place
    mariadb: bool


def log_status(connection: Any) -> LogStatus:
    """Return where the server's binary log ends now. Raises ChangeStreamError if it keeps none, AccessDenied without the privilege."""
    row = _log_status_row(connection)
    try:
        end = Place.of_server(str(row[0]), int(row[1]))
    except MALFORMED as error:
        raise ChangeStreamError(f"the source does not say where its binary log ends ({error}); check which server answers there") from error
    return LogStatus(end, "mariadb" in server_version(connection).lower())


def _log_status_row(connection: Any) -> tuple[Any, ...]:
    mariadb = "mariadb" in server_version(connection).lower()
    # MySQL 8.2 renamed the statement, 8.4 removed the old one. https://dev.mysql.com/doc/refman/8.4/en/show-binary-log-status.html
    version = tuple(int(digits) for digits in re.findall(r"\d+", server_version(connection))[:2])
    rows = query(connection, "SHOW BINARY LOG STATUS" if not mariadb and version >= (8, 2) else "SHOW MASTER STATUS")
    if not rows:
        raise ChangeStreamError("the source keeps no binary log; start it with log_bin")
    return rows[0]


def log_ignores(connection: Any, database: str) -> bool:
    """Return whether the server leaves changes of a database out of its binary log. Raises what `log_status` raises."""
    only, ignored = log_filters(connection)
    return database in ignored or (bool(only) and database not in only)


def log_filters(connection: Any) -> tuple[list[str], list[str]]:
    """Return the databases that alone are in the server's binary log, and those that are not. Raises what `log_status` raises."""
    row = _log_status_row(connection)
    only, ignored = ([database for database in str(row[number] or "").split(",") if database] for number in (2, 3))
    return only, ignored


def first_place(connection: Any) -> Place:
    """Return the beginning of the oldest file that the server still has."""
    rows = query(connection, "SHOW BINARY LOGS")
    try:
        return Place.of_server(str(rows[0][0]), FIRST_OFFSET)
    except MALFORMED as error:
        raise ChangeStreamError(
            f"the source does not say which files its binary log has ({error}); check which server answers there"
        ) from error


def query(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement. Raises errors of ``auditor.errors``."""
    return _ask(connection, statement)[1]


def query_named(connection: Any, statement: str) -> list[dict[str, object]]:
    """Return the rows of a statement by the names of its columns. Raises errors of ``auditor.errors``."""
    names, rows = _ask(connection, statement)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _ask(connection: Any, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return [str(column[0]) for column in cursor.description or ()], list(cursor.fetchall())
    except driver_errors() as error:
        known = translate_error(error)
        if isinstance(known, AccessDenied):
            raise AccessDenied(f"{known}; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the pipeline's user") from error
        raise known or ConnectionLost(str(error)) from error


def other_server_id() -> int:
    """Return a number for a reader that shall end no other one."""
    return random.randrange(1 << 30, 1 << 32)


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask a server for."""

    source: Source
    place: Place
    server_id: int
    """The reader's number. The server ends the older of two readers that have the same."""
    blocking: bool = True
    """Whether the server waits for more at the end of its log."""

    def from_place(self, place: Place) -> Request:
        """Return the same request from another place."""
        return replace(self, place=place)


class Dump:
    """Events of a binary log, as a server sends them from a place on."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.connection = request.source.connect()
        try:
            self.mariadb = "mariadb" in server_version(self.connection).lower()
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        nanoseconds = int(durations().log_heartbeat * 1e9)
        # Servers know one of the two names each, or both. https://dev.mysql.com/doc/refman/9.4/en/replication-options-replica.html
        query(self.connection, "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum")
        query(self.connection, f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
        query(self.connection, f"SET SESSION net_write_timeout = {durations().log_reader}")
        if self.mariadb:
            # 4: events of GTIDs are sent as they are. https://mariadb.com/kb/en/5-slave-registration/
            query(self.connection, "SET @mariadb_slave_capability = 4")
        place, flags = self.request.place, 0 if self.request.blocking else NON_BLOCKING
        body = struct.pack("<BIHI", COM_BINLOG_DUMP, place.offset, flags, self.request.server_id) + place.file.encode()
        driver.begin_stream(self.connection, body, durations().log_silence)

    def close(self) -> None:
        """End the connection at once, whatever the server still wants to send."""
        driver.close_at_once(self.connection)

    def events(self, head: int | None = None) -> Iterator[tuple[bytes, int, int]]:
        """Yield (buffer, start, end) of each event, header first, until the log's end if the request does not block.

        With ``head`` only so many bytes of an event need be in the buffer; the rest of a longer one is not kept.

        Raises PositionLost, ReaderReplaced, AccessDenied, ConnectionLost and ChangeStreamError; LogRefused if what comes is no event.
        """
        receive, size_of = self.receive, _SIZE.unpack_from
        buffer, at, number = b"", 0, 1
        while True:
            available = len(buffer) - at
            if available < PACKET_HEAD + 1:
                buffer, at = _filled(buffer[at:], PACKET_HEAD + 1, receive), 0
                continue
            length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            if buffer[at + 3] != number:
                raise self._malformed(f"packet {buffer[at + 3]} follows where {number} is due")
            number = (number + 1) % 256
            if available < 4 + length:
                wanted = length if head is None or length <= head else head
                if available < 4 + wanted:
                    buffer, at = _filled(buffer[at:], 4 + wanted, receive), 0
            if not length:
                raise self._malformed("a packet is empty")
            if buffer[at + 4]:
                if buffer[at + 4] == 0xFE and length < 9:
                    return
                raise self._failure(buffer[at + 4 : at + 4 + length])
            if length <= HEADER.size:
                raise self._malformed(f"an event of {length} bytes is shorter than its header")
            [size] = size_of(buffer, at + 14)
            if length == MAX_PACKET:
                buffer, at, number = yield from self._large_event(buffer, at, head, size, number)
                continue
            if size != length - 1:
                raise self._malformed(f"an event of {length - 1} bytes says that it has {size}")
            end = at + 4 + length
            if end <= len(buffer):
                yield buffer, at + 5, end
                at = end
            else:  # only its head was asked for
                yield buffer, at + 5, len(buffer)
                buffer, at = _skipped(end - len(buffer), receive), 0

    def _large_event(
        self, buffer: bytes, at: int, head: int | None, size: int, number: int
    ) -> Generator[tuple[bytes, int, int], None, tuple[bytes, int, int]]:
        """Yield an event that is sent in several packets; return the buffer and the offset after it, and the next packet's number.

        ``size`` is what its header says: no more than that is received.
        """
        if not MAX_PACKET - 1 <= size <= LONGEST_EVENT:
            raise self._malformed(f"an event says that it has {size:,} bytes, of {LONGEST_EVENT:,} at most")
        left = size + 1  # with the byte before the event that says that it is none of an error
        if head is not None:
            buffer, at = _filled(buffer[at:], 4 + head, self.receive), 0
            yield buffer, 5, len(buffer)
        pieces: list[bytes] = []
        while True:
            length = int.from_bytes(buffer[at : at + 3], "little")
            left -= length
            if left < 0 or (left and length < MAX_PACKET):
                raise self._malformed(f"an event that says that it has {size:,} bytes has others")
            if head is None:
                buffer, at = _filled(buffer[at:], 4 + length, self.receive), 0
                pieces.append(buffer[4 if pieces else 5 : 4 + length])
            ends = at + 4 + length
            buffer, at = buffer[ends:] if len(buffer) >= ends else _skipped(ends - len(buffer), self.receive), 0
            if length < MAX_PACKET:
                break
            buffer = _filled(buffer, PACKET_HEAD, self.receive)
            if buffer[3] != number:
                raise self._malformed(f"packet {buffer[3]} follows where {number} is due")
            number = (number + 1) % 256
        if head is None:
            event = b"".join(pieces)
            yield event, 0, len(event)
        return buffer, 0, number

    def _malformed(self, what: str) -> LogRefused:
        """Return why what the server sends is no binary log."""
        return LogRefused(
            f"connection {self.request.source.name}: what the server sends after {self.request.place} is no binary log: {what}; check which"
            " server answers there, and what is between"
        )

    def receive(self) -> bytes:
        """Return the next bytes that the server sends, at most CHUNK of them. Raises ConnectionLost."""
        try:
            received: bytes = driver.socket_of(self.connection).recv(CHUNK)
        except TimeoutError as error:
            silence = f"no event and no heartbeat for {durations().log_silence:g} s"
            raise ConnectionLost(f"connection {self.request.source.name}: {silence}") from error
        except OSError as error:
            raise ConnectionLost(f"connection {self.request.source.name}: {error}") from error
        if not received:
            raise ConnectionLost(f"connection {self.request.source.name}: the server ended the stream of its binary log")
        return received

    def _failure(self, packet: bytes) -> AuditorError:
        """Return the error that an error packet says."""
        from pymysql import OperationalError

        code = int.from_bytes(packet[1:3], "little")
        text = packet[3:].decode(errors="replace").removeprefix("#HY000")
        place, name = self.request.place, self.request.source.name
        if _REPLACED.search(text) or code == 4052:
            return ReaderReplaced(
                f"connection {name}: another reader with server id {self.request.server_id} took over the binary log; run one reader per"
                " source, or give this one another server_id"
            )
        if _GONE.search(text):
            return PositionLost(f"position {place} is gone from the source's binary log; refresh the tables ({text})")
        if _NO_BOUNDARY.search(text):
            return PositionLost(
                f"{place} is no event boundary of the source's binary log; start at one that SHOW BINLOG EVENTS lists, or refresh the"
                f" tables ({text})"
            )
        known = translate_error(OperationalError(code, text))
        if isinstance(known, AccessDenied):
            return AccessDenied(f"connection {name}: {text}; GRANT REPLICATION SLAVE ON *.* TO the pipeline's user")
        return known if isinstance(known, ConnectionLost) else ChangeStreamError(f"connection {name}, at {place}: {text} (error {code})")


def _filled(buffer: bytes, size: int, receive: Callable[[], bytes]) -> bytes:
    """Return the buffer with as much more as makes ``size`` bytes at least."""
    pieces, missing = [buffer], size - len(buffer)
    while missing > 0:
        pieces.append(receive())
        missing -= len(pieces[-1])
    return b"".join(pieces)


def _skipped(size: int, receive: Callable[[], bytes]) -> bytes:
    """Receive ``size`` bytes, and return what came after them."""
    while True:
        received = receive()
        if len(received) >= size:
            return received[size:]
        size -= len(received)


class Patience:
    """Waits between attempts to reach a server again: growing ones, until ``seconds`` have passed without success."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reset()

    def reset(self) -> None:
        """Begin again, after a success."""
        self._backoff = Backoff(durations().log_first_reconnect, durations().log_longest_reconnect)
        self._since: float | None = None

    def wait(self, error: AuditorError) -> None:
        """Wait before the next attempt. Raises ``error`` if it can never succeed, or if the patience is at its end."""
        if not isinstance(error, ConnectionLost | Unreachable):
            raise error
        now = time.monotonic()
        self._since = self._since or now
        wait = self._backoff.fail()
        if now - self._since + wait > self.seconds:
            raise error
        log.warning("the binary log's connection was lost; reconnecting", extra={"action": "reconnect", "reason": str(error)})
        time.sleep(wait)
