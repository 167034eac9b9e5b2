"""Find where the transactions of a binary log end, by the rules of MySQL and of MariaDB.

Only at such ends may a stream begin, be cut and end: a transaction repeats the table maps that it needs. Both rules look at events that
begin or end transactions and at the first characters of statements; events of rows and table maps need not be shown to them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.compression import BLOCK_BYTES, each_transaction_event, transaction_begin

_GTID_NUMBER = struct.Struct("<q")
_MARIADB_GTID = struct.Struct("<QIB")
_XID = struct.Struct("<BIII")
_XID_TEXT = re.compile(rb"XA (COMMIT|ROLLBACK) X'([0-9a-fA-F]*)'\s*,\s*X'([0-9a-fA-F]*)'\s*,\s*(\d+)")

MARIADB_STANDALONE, MARIADB_GROUP_COMMIT, MARIADB_PREPARED_XA, MARIADB_COMPLETED_XA = 1, 2, 64, 128
"""Flags of a MariaDB GTID: the next statement is the whole transaction; the number of a group of commits follows; it is prepared by XA
PREPARE, and completed after that, and an xid follows."""
MARIADB_START_ALTER, MARIADB_ROLLBACK_ALTER = 2, 8
"""Flags behind these: an ALTER TABLE begins, which a later transaction commits or rolls back; it is rolled back."""

HEAD = BLOCK_BYTES + 4096
"""Bytes of an event that the rules may look at. Longer statements begin no transaction, and end none."""

SMALL_PAYLOAD = 16_384
"""Bytes of a compressed transaction up to which it is unpacked as a whole."""


def statement_span(buffer: bytes, body: int) -> int:
    """Return where the text of a QUERY event begins whose body begins at ``body``."""
    # After 13 bytes, of which one and two are these sizes: variables, the database, a zero byte.
    return body + 14 + buffer[body + 8] + (buffer[body + 11] | buffer[body + 12] << 8)


class Transactions:
    """The transaction that a reader is in, by MySQL's rules.

    ``feed`` takes the events of a log one after another and returns whether a transaction ends with the event.
    """

    KINDS: ClassVar[frozenset[int]] = frozenset(
        {types.QUERY, types.XID, types.XA_PREPARE, types.GTID, types.ANONYMOUS_GTID, types.TAGGED_GTID, types.TRANSACTION_PAYLOAD}
    )
    """Types of the events that must be fed."""

    def __init__(self) -> None:
        self.open = False
        """Whether a transaction has begun and not ended."""
        self.in_block = False
        """Whether more than one statement may follow before it ends."""
        self.is_xa = False
        """Whether it is one of two phases, of which the second may undo it."""
        self.is_void = False
        """Whether its statement changes nothing: that of an ALTER TABLE of two phases which only begins, or is rolled back."""
        self.prepared: str | None = None
        """The XA transaction that the transaction just ended has prepared."""
        self.decided: tuple[str, bool] | None = None
        """The XA transaction that the transaction just ended has committed (True) or rolled back."""
        self._gtid_type = 0
        self._gtid = self._last_gtid = b""
        self._last_type = 0
        self._head = bytes(types.HEADER.size)

    def feed(self, kind: int, buffer: bytes, body: int, end: int) -> bool:
        """Take the event whose body lies in ``buffer[body:end]``, perhaps cut off after `HEAD` bytes."""
        if kind == types.XID:
            return self._ended()
        if kind == types.QUERY:
            return self._statement(buffer, statement_span(buffer, body), end)
        if kind == types.XA_PREPARE:
            return self._xa_prepare(buffer, body)
        if kind == types.TRANSACTION_PAYLOAD:
            return self._ended()
        self._begin(kind, buffer, body, end)
        return False

    def look_inside(self, data: bytes, whole: Callable[[], bytes]) -> None:
        """Note in ``prepared`` whether the compressed transaction that just ended was prepared by XA PREPARE.

        ``data`` is the body of its event, perhaps cut off after `HEAD` bytes; ``whole`` gets all of it. Raises ValueError or OSError if it
        cannot be unpacked.
        """
        if len(data) > SMALL_PAYLOAD and not _begins_xa(transaction_begin(data, SMALL_PAYLOAD)):
            return
        self.prepared = prepared_xid(each_transaction_event(whole() if len(data) > SMALL_PAYLOAD else data))

    def _begin(self, kind: int, buffer: bytes, body: int, end: int) -> None:
        self.open, self.in_block, self.is_xa, self.prepared, self.decided = True, False, False, None, None
        self._gtid_type, self._gtid = kind, buffer[body : body + 192] if kind == types.TAGGED_GTID else buffer[body : body + 56]
        self._head = buffer[body - types.HEADER.size : body]

    def _statement(self, buffer: bytes, text: int, end: int) -> bool:
        first = buffer[text]
        if self.in_block:
            if first == 0x43:  # C
                return buffer.startswith(b"COMMIT", text) and self._ended()
            return first == 0x52 and buffer.startswith(b"ROLLBACK", text) and not _is_rollback_to(buffer, text) and self._ended()
        if buffer.startswith(b"BEGIN", text) or buffer.startswith(b"XA START", text):
            self.open = self.in_block = True
            self.is_xa = first == 0x58  # X
            return False
        return self._single_statement(buffer, text, end)

    def _single_statement(self, buffer: bytes, text: int, end: int) -> bool:
        if buffer.startswith(b"XA ", text) and (match := _XID_TEXT.match(buffer, text, end)):
            self.decided = xid_key(int(match[4]), bytes.fromhex(match[2].decode()), bytes.fromhex(match[3].decode())), match[1] == b"COMMIT"
        return self._ended()

    def _xa_prepare(self, buffer: bytes, body: int) -> bool:
        self.prepared = _xid_of_prepare(buffer, body)
        return self._ended()

    def _ended(self) -> bool:
        self.open = self.in_block = False
        self._last_type, self._last_gtid = self._gtid_type, self._gtid
        return True

    @property
    def gtid(self) -> str | None:
        """The global id of the transaction that was begun last; None if it has none."""
        return self._gtid_text(self._gtid_type, self._gtid)

    @property
    def last_gtid(self) -> str | None:
        """The global id of the transaction that ended last; None if it has none."""
        return self._gtid_text(self._last_type, self._last_gtid)

    def _gtid_text(self, kind: int, gtid: bytes) -> str | None:
        if kind == types.GTID:
            return f"{_uuid(gtid[1:17])}:{_GTID_NUMBER.unpack_from(gtid, 17)[0]}"
        return _tagged_fields(gtid).text if kind == types.TAGGED_GTID else None

    @property
    def commit_time(self) -> int | None:
        """Microseconds since 1970 at which it was committed; None if the log does not say."""
        if self._gtid_type == types.TAGGED_GTID:
            return _tagged_fields(self._gtid).committed
        if len(self._gtid) < 49 or self._gtid[25] != 2:  # older than MySQL 8.0
            return None
        return int.from_bytes(self._gtid[42:49], "little") & ~(1 << 55)

    @property
    def server(self) -> int:
        """The number of the server that was the first to commit the transaction that was begun last."""
        return int(types.HEADER.unpack_from(self._head)[2])

    @property
    def origin(self) -> bytes:
        """Who was the first to commit the transaction that was begun last, and when: the same in the logs of all replicas."""
        if self._gtid_type == types.TAGGED_GTID or len(self._gtid) < 49 or self._gtid[25] != 2:
            return self._head[5:9] + self._head[:4]
        # A bit of the time says that another one follows, which is that of the first commit.
        return self._head[5:9] + (self._gtid[49:56] if self._gtid[48] & 0x80 else self._gtid[42:49])


class MariaDBTransactions(Transactions):
    """The same by MariaDB's rules: the flags of a GTID say whether a single statement follows it."""

    KINDS = frozenset({types.QUERY, types.XID, types.XA_PREPARE, types.MARIADB_GTID, types.MARIADB_QUERY_COMPRESSED})

    def feed(self, kind: int, buffer: bytes, body: int, end: int) -> bool:
        """Take the event whose body lies in ``buffer[body:end]``, perhaps cut off after `HEAD` bytes."""
        if kind == types.MARIADB_QUERY_COMPRESSED:  # too long for one that ends a block
            return not self.in_block and self._ended()
        return super().feed(kind, buffer, body, end)

    def _begin(self, kind: int, buffer: bytes, body: int, end: int) -> None:
        self.open, self.prepared, self.decided = True, None, None
        self.is_xa = bool(buffer[body + 12] & MARIADB_PREPARED_XA)
        self.is_void = bool(_more_flags(buffer, body, end) & (MARIADB_START_ALTER | MARIADB_ROLLBACK_ALTER))
        self._gtid_type, self._gtid = kind, buffer[body - types.HEADER.size : body + 13]
        self._head = self._gtid[: types.HEADER.size]
        self.in_block = not buffer[body + 12] & MARIADB_STANDALONE

    def _gtid_text(self, kind: int, gtid: bytes) -> str | None:
        if not gtid:
            return None
        number, domain, _ = _MARIADB_GTID.unpack_from(gtid, types.HEADER.size)
        return f"{domain}-{types.HEADER.unpack_from(gtid)[2]}-{number}"

    @property
    def origin(self) -> bytes:
        """Who was the first to commit the transaction that was begun last, and in which second that began."""
        return self._head[5:9] + self._head[:4]

    @property
    def commit_time(self) -> int | None:
        """None: MariaDB logs only when the statement began that committed, in whole seconds, in the header of the GTID."""
        return None


def _more_flags(buffer: bytes, body: int, end: int) -> int:
    """Return the flags behind the fixed fields of MariaDB's GTID event; 0 if it has none."""
    flags, at = buffer[body + 12], body + 13
    at += 8 if flags & MARIADB_GROUP_COMMIT else 0
    if flags & (MARIADB_PREPARED_XA | MARIADB_COMPLETED_XA):
        at += 6 + buffer[at + 4] + buffer[at + 5]
    return buffer[at] if at < end else 0


def prepared_xid(events: Iterable[bytes]) -> str | None:
    """Return the XA transaction that the events of a compressed transaction prepare; None if they are of another one, or commit it."""
    for number, event in enumerate(events):
        if not number and not _begins_xa(event):
            return None
        if event[4] == types.XA_PREPARE:
            return _xid_of_prepare(event, types.HEADER.size)
    raise ValueError("an XA transaction that does not end")


def _begins_xa(events: bytes) -> bool:
    return events[4] == types.QUERY and events.startswith(b"XA START", statement_span(events, types.HEADER.size))


def _xid_of_prepare(buffer: bytes, body: int) -> str | None:
    """Return the xid of an XA_PREPARE event, or None if it commits in one phase."""
    one_phase, format_id, first, second = _XID.unpack_from(buffer, body)
    data = buffer[body + 13 : body + 13 + first + second]
    return None if one_phase else xid_key(format_id, data[:first], data[first:])


def xid_key(format_id: int, first: bytes, second: bytes) -> str:
    """Return the text that identifies an XA transaction here, from the parts of its xid."""
    return f"{first.hex()}.{second.hex()}.{format_id}"


def _is_rollback_to(buffer: bytes, text: int) -> bool:
    return buffer.startswith(b"ROLLBACK TO", text) or buffer.startswith(b"ROLLBACK WORK TO", text)


def _uuid(data: bytes) -> str:
    digits = data.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@dataclass(frozen=True, slots=True)
class _TaggedGtid:
    """A tagged GTID."""

    text: str
    committed: int


def _tagged_fields(data: bytes) -> _TaggedGtid:
    """Return the fields of a tagged GTID event: numbered ones, of integers of variable length.

    https://dev.mysql.com/doc/dev/mysql-server/latest/PageLibsMysqlSerialization.html
    """
    at = 0

    def number() -> int:
        """Return an integer, whose first byte has as many ones at its low end as bytes follow."""
        nonlocal at
        more = min((~data[at] & (data[at] + 1)).bit_length() - 1, 8)
        value = int.from_bytes(data[at : at + more + 1], "little") >> (more + 1 if more < 8 else 8)
        at += more + 1
        return value

    for _ in range(3):  # the format's version, the size, and the last field that a reader must know
        number()
    uuid, tag, gno, committed = b"", b"", 0, 0
    while at < len(data):
        match number():
            case 1:
                uuid = bytes(number() for _ in range(16))
            case 2:
                gno = number() >> 1  # the lowest bit is the sign
            case 3:
                size = number()
                tag, at = data[at : at + size], at + size
            case 6:
                committed = number()
                break
            case _:
                number()
    return _TaggedGtid(f"{_uuid(uuid)}:{tag.decode()}:{gno}", committed)
