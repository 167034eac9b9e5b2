"""Find heartbeats in a binary log, and report which transactions come after the last one.

A heartbeat is a row that `auditor.pipeline.heartbeat` writes. A replica logs the transactions of its source in the same order, each with
the server that committed it first and the time of that. So a place in one log is found again in another by the last heartbeat before it,
and the transactions after that. The table is known by its name and the types of its columns: whatever the log says of these (its
``binlog_row_metadata``), the row can be read.
"""

from __future__ import annotations

import datetime as dt
import struct
import zlib
from dataclasses import dataclass
from typing import TypedDict

from auditor.model import HEARTBEAT_TABLE
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.compression import each_transaction_event, uncompressed_event
from auditor.pipeline.binlog.transactions import Transactions

_NAME = HEARTBEAT_TABLE.encode()
_COLUMNS = bytes([4, 3, 8, 18, 8, 1, 6])
"""Four columns: INT, BIGINT, DATETIME with fractions, BIGINT; one byte about them: six digits of the fraction."""

_ROW = struct.Struct("<Biq8sq")
"""A row of these columns: which are NULL, and their values."""

_ALL_COLUMNS = 0x0F

SMALL = 1024
"""Bytes of a compressed transaction beyond which it holds more than a heartbeat."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat. No two are equal: after a failover serial numbers may come again, but not at the same time on the same server."""

    database: str
    serial: int
    at: dt.datetime
    server: int
    """The number of the server that it was written on."""

    def __str__(self) -> str:
        return f"heartbeat {self.serial} of {self.database} ({self.at:%Y-%m-%d %H:%M:%S} UTC)"


class TrailBody(TypedDict):
    """A `Trail` as JSON holds it: the fields of its heartbeat, and its own."""

    database: str
    serial: int
    at: str
    server: int
    transactions: int
    digest: int


@dataclass(frozen=True, slots=True)
class Trail:
    """What comes before a place of a log: the last heartbeat, and the transactions after that."""

    beat: Beat
    transactions: int = 0
    digest: int = 0
    """A checksum of who committed these transactions first, and when."""

    def after(self, origin: bytes) -> Trail:
        """Return the trail after one more transaction."""
        return Trail(self.beat, self.transactions + 1, zlib.crc32(origin, self.digest))

    def to_json(self) -> TrailBody:
        """Return the trail as JSON holds it."""
        return {
            "database": self.beat.database,
            "serial": self.beat.serial,
            "at": self.beat.at.isoformat(),
            "server": self.beat.server,
            "transactions": self.transactions,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, body: TrailBody) -> Trail:
        """Return the trail that ``to_json`` wrote."""
        beat = Beat(body["database"], body["serial"], dt.datetime.fromisoformat(body["at"]), body["server"])
        return cls(beat, body["transactions"], body["digest"])


class BeatFinder:
    """Takes table maps and rows events of a log, keeps the heartbeat of the transaction that it is in, and counts those after the last."""

    def __init__(self, trail: Trail | None = None) -> None:
        self.table: int | None = None
        """The number of the table of heartbeats, while a rows event of it may follow."""
        self._database = ""
        self._beat: Beat | None = None
        # As numbers, because this happens for each transaction.
        self._last: Beat | None = trail.beat if trail else None
        self._transactions, self._digest = (trail.transactions, trail.digest) if trail else (0, 0)

    @property
    def trail(self) -> Trail | None:
        """The last heartbeat, and the transactions after it; None if there was none."""
        return Trail(self._last, self._transactions, self._digest) if self._last else None

    def follow(self, transactions: Transactions) -> None:
        """Note the transaction that ended, with its heartbeat if it wrote one."""
        if beat := self.take():
            self._last, self._transactions, self._digest = beat, 0, 0
        elif self._last:
            self._transactions += 1
            self._digest = zlib.crc32(transactions.origin, self._digest)

    def forget(self) -> None:
        """Begin with a new dump, at a transaction's begin."""
        self.table = self._beat = None

    def take(self) -> Beat | None:
        """Return the heartbeat of the transaction that ended, if it wrote one."""
        self.table, beat, self._beat = None, self._beat, None
        return beat

    def feed(self, kind: int, buffer: bytes, body: int, stop: int) -> None:
        """Take an event whose body lies in ``buffer[body:stop]``, without its checksum; only table maps and rows events matter."""
        if kind == types.TABLE_MAP:
            self._table_map(buffer, body)
        elif kind in types.ROWS_TYPES and int.from_bytes(buffer[body : body + 6], "little") == self.table:
            self._beat = _read_row(kind, buffer, body + 8, stop, self._database) or self._beat

    def unpack(self, data: bytes) -> None:
        """Take the body of a compressed transaction, if it is small. Raises ValueError or OSError if it cannot be unpacked."""
        if len(data) > SMALL:
            return
        for event in each_transaction_event(data):
            self.feed(event[4], event, types.HEADER.size, len(event))

    def _table_map(self, buffer: bytes, body: int) -> None:
        # A number of six bytes, flags of two; database and table: each its size, the text, and a zero byte.
        at = body + 10 + buffer[body + 8]
        if buffer[at] == len(_NAME) and buffer.startswith(_NAME, at + 1) and buffer.startswith(_COLUMNS, at + len(_NAME) + 2):
            self.table = int.from_bytes(buffer[body : body + 6], "little")
            self._database = buffer[body + 9 : at - 1].decode()


def _read_row(kind: int, buffer: bytes, at: int, stop: int, database: str) -> Beat | None:
    """Return the heartbeat that an event inserts, or updates to; None for a delete, and rows that are not logged as a whole."""
    if kind in types.ROWS_V2:
        at += int.from_bytes(buffer[at : at + 2], "little")
    images = 2 if kind in types.UPDATE_TYPES else 1
    if kind in types.DELETE_TYPES or buffer[at + images] & _ALL_COLUMNS != _ALL_COLUMNS:
        return None
    rows = buffer[at + 1 + images : stop]
    if kind in types.COMPRESSED_ROWS:
        rows = uncompressed_event(rows)
    if len(rows) < images * _ROW.size:
        return None
    _, _, serial, time, server = _ROW.unpack_from(rows, len(rows) - _ROW.size)
    return Beat(database, serial, _moment(time), server)


def _moment(data: bytes) -> dt.datetime:
    """Return the time that eight bytes of a DATETIME(6) hold.

    https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html
    """
    packed = int.from_bytes(data[:5], "big") - 0x8000000000
    days, seconds = packed >> 17, packed & 0x1FFFF
    year, month = divmod(days >> 5, 13)
    microseconds = int.from_bytes(data[5:], "big")
    return dt.datetime(year, month, days & 31, seconds >> 12, seconds >> 6 & 63, seconds & 63, microseconds, dt.UTC)
