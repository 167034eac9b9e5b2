"""Scan the headers of a binary log and cut it into ranges at transaction ends.

Only headers and the events that begin and end transactions are read, so a scan takes a small part of the time of decoding. The cuts
depend only on the start and on the size of a range: every scan from the same start finds the same ones.
"""

from __future__ import annotations

import datetime as dt
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from auditor.errors import ConnectionLost, LogRefused, PositionLost, SourceReplaced, Unreachable
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.event_types import MALFORMED, refused
from auditor.pipeline.binlog.heartbeats import BeatFinder, Trail, TrailBody
from auditor.pipeline.binlog.log_connection import Dump, Patience, Request, Source, other_server_id
from auditor.pipeline.binlog.table_statements import may_change_tables, may_make_references
from auditor.pipeline.binlog.transactions import HEAD, MariaDBTransactions, Transactions
from auditor.pipeline.events import FIRST_OFFSET, Place

REPLACED = "let the connection lead to the first one again, or forget its positions with: auditor pipeline reset, and copy the tables again"
"""The ways on where the log is another one."""

LARGEST_FILE = 1 << 32
"""Bytes of a file of the log that positions reach."""
BESIDE = 64 << 20
"""Bytes of events at most that a server makes up for a dump, or sends from another place, as the list of earlier global ids."""
MOST_BYTES = LARGEST_FILE + BESIDE
"""Bytes of one file that a scan receives at most."""

_QUIET = types.ROWS_TYPES | {types.TABLE_MAP, types.ROWS_QUERY, types.PARTIAL_UPDATE, types.MARIADB_ANNOTATE}


@dataclass(frozen=True, slots=True)
class LogRange:
    """Transactions of one file of the log, from the end of one to the end of another."""

    start: Place
    ends: array[int]
    """The offset in the same file at which each of its transactions ends."""
    prepared: Mapping[str, LogRange] = field(default_factory=dict)
    """Where the XA transactions that it commits were prepared."""
    born: int = 0
    """When the server began the file (seconds since 1970); 0 if that is not known."""

    @property
    def end(self) -> int:
        """The offset of its end."""
        return self.ends[-1] if self.ends else self.start.offset


def offsets(some: Iterable[int] = ()) -> array[int]:
    """Return offsets in a file of a log, in four bytes each: there are as many as transactions."""
    return array("I", some)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two transactions, with what a reader must know to continue there."""

    place: Place
    gtid: str | None = None
    """The global id of the transaction before it."""
    prepared: Mapping[str, LogRange] = field(default_factory=dict)
    """XA transactions that were prepared before it and not decided."""
    trail: Trail | None = None
    """The last heartbeat before it, and the transactions after that; None if no heartbeat was seen."""
    born: int = 0
    """When the server began the file of the place (seconds since 1970), which a log that was reset or restored has otherwise; 0 if that is
    not known."""


class LogScan:
    """A scan of a log that continues from where it stopped, and connects again when the connection is lost."""

    def __init__(self, request: Request, mark: Mark, range_bytes: int, patience: float, notes_statements: bool = False) -> None:
        """``notes_statements`` says whether to look for statements that may change tables."""
        self.mark = mark
        self.statements: list[LogRange] = []
        """The transactions with such statements that the last `advance` passed, in order."""
        self.references: list[LogRange] = []
        """Those of them that may make foreign keys."""
        self._notes_statements = notes_statements
        self._request = request
        self._range_bytes = range_bytes
        self._patience = Patience(patience)
        self.dump: Dump | None = None
        """The connection that the log is read by; None before the first `advance`, and after a connection was lost."""
        self._events: Iterator[tuple[bytes, int, int]] = iter(())
        self._transactions = Transactions()
        self._beats = BeatFinder(mark.trail)
        self._is_unproved = True
        self._checksum = 0

    def close(self) -> None:
        """End the dump."""
        if self.dump:
            self.dump.close()
            self.dump = None

    def advance(self, until: Place, max_bytes: int | None = None) -> list[LogRange]:
        """Scan to ``until``, or to the first transaction end at which ``max_bytes`` of the log were passed; return its ranges.

        ``mark`` then says where it stopped. The last range may be smaller than the others, and a transaction is never cut. Raises
        PositionLost, LogRefused, ReaderReplaced, AccessDenied, and ConnectionLost or Unreachable when the patience is at its end.
        """
        cutter = _Cutter(self.mark)
        self.statements, self.references = [], []
        while self.mark.place.order < until.order and (max_bytes is None or cutter.passed < max_bytes):
            try:
                if self.dump is None:
                    self._open()
                with refused(lambda: self.mark.place):
                    self._scan(cutter, until, max_bytes)
                self._patience.reset()
            except (ConnectionLost, Unreachable) as error:
                self.close()
                self._patience.wait(error)
        return cutter.finish()

    def _open(self) -> None:
        self.dump = Dump(self._request.from_place(self.mark.place))
        self._events = self.dump.events(head=HEAD)
        self._transactions = MariaDBTransactions() if self.dump.mariadb else Transactions()
        self._beats.forget()
        self._is_unproved = True

    def _scan(self, cutter: _Cutter, until: Place, max_bytes: int | None) -> None:
        """Take events until the end is reached. A connection that is lost leaves the mark at the last transaction end."""
        # The loop runs for each event, so it keeps the place as a number, and makes marks of it only when it must.
        transactions, unpack, kinds, beats = self._transactions, types.HEADER.unpack_from, self._transactions.KINDS, self._beats
        feed, ranges, file, passed = transactions.feed, self._range_bytes, self.mark.place.file, self.mark.place.offset
        checksum, notes_statements, statement, received, born = self._checksum, self._notes_statements, 0, 0, self.mark.born
        goal = _goal(cutter, file, until, max_bytes)
        try:
            for buffer, at, end in self._events:
                seconds, kind, _, size, offset, flags = unpack(buffer, at)
                if (received := received + size) > MOST_BYTES:
                    raise ValueError(f"more events come than a file of {LARGEST_FILE:,} bytes has")
                if kind in _QUIET:
                    if kind == types.TABLE_MAP or beats.table is not None:
                        beats.feed(kind, buffer, at + 19, end - checksum)
                    continue
                if kind in kinds:
                    if notes_statements and not transactions.is_void:
                        statement = max(statement, _weight(kind, buffer, at + 19, end - checksum, end <= len(buffer)))
                    if not feed(kind, buffer, at + 19, end - checksum):
                        if self._is_unproved:
                            self._prove(Place(file, passed), offset - size)
                        continue
                    if offset < passed:
                        raise _no_end(Place(file, passed), offset)
                    if kind == types.TRANSACTION_PAYLOAD:
                        self._look_inside(buffer[at + 19 : end - checksum], Place(file, passed))
                    if transactions.prepared or transactions.decided:
                        self.mark = cutter.decide(Mark(Place(file, passed), None, self.mark.prepared, born=born), offset, transactions)
                    if statement:
                        self._keep(LogRange(Place(file, passed), offsets([offset])), statement > 1)
                        statement = 0
                    passed = cutter.end = offset
                    cutter.ends.append(offset)
                    beats.follow(transactions)
                    if offset - cutter.start >= ranges:
                        cutter.cut()
                elif kind == types.ROTATE and (flags & types.ARTIFICIAL or not offset):
                    if (named := _next_file(file, buffer[at : at + size])) == file:
                        continue
                    file, passed, received, born = named, FIRST_OFFSET, 0, 0
                    cutter.new_file(file)
                    goal = _goal(cutter, file, until, max_bytes)
                else:
                    if kind == types.FORMAT:
                        checksum, born = self._begin_file(cutter, Place(file, passed), types.checksum_bytes(buffer, end), born, seconds)
                    if offset > passed and not transactions.open:
                        passed = offset
                if passed >= goal and not transactions.open:
                    return
        finally:
            self.mark = Mark(Place(file, passed), transactions.last_gtid or self.mark.gtid, self.mark.prepared, beats.trail, born)
        raise ConnectionLost(f"connection {self._request.source.name}: the server ended the stream of its binary log")

    def _keep(self, log_range: LogRange, makes_references: bool) -> None:
        """Keep a transaction that has statements."""
        self.statements.append(log_range)
        self.references += [log_range] if makes_references else []

    def _begin_file(self, cutter: _Cutter, place: Place, checksum: int, known: int, born: int) -> tuple[int, int]:
        """Note what the first event of each file says, and return it. Raises SourceReplaced."""
        check_born(self._request.source, place, known, born)
        self._checksum, cutter.born = checksum, born
        return checksum, born

    def _look_inside(self, data: bytes, begin: Place) -> None:
        """Find out whether a compressed transaction, which begins at ``begin``, was prepared by XA PREPARE, or wrote a heartbeat."""

        def whole() -> bytes:
            request = Request(self._request.source, begin, other_server_id(), blocking=False)
            with closing(Dump(request)) as dump:
                for buffer, at, end in dump.events():
                    if types.HEADER.unpack_from(buffer, at)[1] == types.TRANSACTION_PAYLOAD:
                        return buffer[at + types.HEADER.size : end]
            raise ConnectionLost(f"connection {request.source.name}: the stream of the binary log ended at {begin}")

        try:
            self._transactions.look_inside(data, whole)
            self._beats.unpack(data)
        except MALFORMED as error:
            raise LogRefused(f"{begin}: a compressed transaction cannot be unpacked ({error}); report this") from error

    def _prove(self, place: Place, begin: int) -> None:
        """Check that the first event begins where the dump was asked to; MariaDB leaves out events that nobody asked for."""
        self._is_unproved = False
        assert self.dump is not None
        if begin < place.offset or (begin > place.offset and not self.dump.mariadb):
            raise PositionLost(
                f"{place} is no event boundary of the source's binary log; start at one that SHOW BINLOG EVENTS lists, or refresh the"
                " tables"
            )


def _no_end(begin: Place, offset: int) -> LogRefused:
    """Return why a transaction has no end that a reader could stop at, by the offset that its last event says."""
    if not offset:
        return LogRefused(f"{begin}: the log does not say where the transaction ends that begins here; report this")
    return LogRefused(
        f"{begin.file} grows beyond 4 GiB after {begin}, where no position reaches; refresh the tables, and keep transactions smaller"
    )


def check_born(source: Source, place: Place, known: int, born: int) -> None:
    """Check that a file of the log was begun when it was known to be; 0 for not known. Raises SourceReplaced."""
    if known and born != known:
        when, then = (f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S}" for seconds in (born, known))
        raise SourceReplaced(
            f"connection {source.name}: {place.file}, which was read up to {place}, was begun at {then} UTC, and the file of that name now"
            f" at {when} UTC: the log was reset, or the source restored to an earlier time, and targets may be ahead of it; {REPLACED}"
        )


def read_born(source: Source, file: str) -> int:
    """Return when the server began a file of its log (seconds since 1970). Raises PositionLost if it has none of that name."""
    with closing(Dump(Request(source, Place(file, FIRST_OFFSET), other_server_id(), blocking=False))) as dump:
        for buffer, at, _ in dump.events():
            seconds, kind, *_ = types.HEADER.unpack_from(buffer, at)
            if kind == types.FORMAT:
                return int(seconds)
    raise PositionLost(f"connection {source.name}: {file} of the binary log has no beginning; refresh the tables")


class _Cutter:
    """Collects ranges. All offsets are in ``file``, the last one that was reached."""

    def __init__(self, mark: Mark) -> None:
        self.file = mark.place.file
        self.start = self.end = mark.place.offset
        """Where the range began that is not finished, and where the last transaction ended."""
        self.ends = offsets()
        """Where its transactions end."""
        self._ranges: list[LogRange] = []
        self._earlier_files = 0
        self._first = mark.place.offset
        self._prepared: dict[str, LogRange] = {}
        self.born = mark.born
        """When the server began the file."""

    @property
    def passed(self) -> int:
        """Bytes of the log up to the last transaction end."""
        return self._earlier_files + self.end - self._first

    def decide(self, mark: Mark, end: int, transactions: Transactions) -> Mark:
        """Note that a transaction, which ends at ``end``, was prepared, or decided on another one; return the mark after it."""
        prepared = dict(mark.prepared)
        if transactions.prepared:
            prepared[transactions.prepared] = LogRange(mark.place, offsets([end]))
        if transactions.decided:
            xid, is_commit = transactions.decided
            log_range = prepared.pop(xid, None)
            if is_commit and log_range:
                self._prepared[xid] = log_range
        return Mark(mark.place, mark.gtid, prepared, born=mark.born)

    def new_file(self, file: str) -> None:
        """Note that the log continues in another file."""
        self.cut()
        self._earlier_files += self.end - self._first
        self.born = 0
        self.file, self.start, self.end, self._first = file, FIRST_OFFSET, FIRST_OFFSET, FIRST_OFFSET

    def cut(self) -> None:
        """End a range at the last transaction end."""
        if self.ends:
            self._ranges.append(LogRange(Place(self.file, self.start), self.ends, self._prepared, self.born))
        self.start, self.ends, self._prepared = self.end, offsets(), {}

    def finish(self) -> list[LogRange]:
        """Return the ranges up to the last transaction end."""
        self.cut()
        return self._ranges


def _goal(cutter: _Cutter, file: str, until: Place, max_bytes: int | None) -> int:
    """Return the offset in the file at which a scan stops: that of ``until``, or after as many bytes as are left."""
    place = Place(file, 0)
    last = until.offset if file == until.file else 0 if place.order > until.order else 1 << 32
    return last if max_bytes is None else min(last, cutter.end + max_bytes - cutter.passed)


def _weight(kind: int, buffer: bytes, body: int, stop: int, is_whole: bool) -> int:
    """Return 1 if an event has a statement that may change tables, 2 if that may make a foreign key too, else 0."""
    if not may_change_tables(kind, buffer, body, stop):
        return 0
    return 1 + may_make_references(kind, buffer, body, stop, is_whole)


def _next_file(file: str, event: bytes) -> str:
    """Return the file that a ROTATE event names: the same one, or one after it. Raises ValueError or OverflowError for others."""
    named = file_name(event)
    if named != file and Place(named, 0).order <= Place(file, 0).order:
        raise ValueError(f"the log continues from {file} in {named}, which does not come after it")
    return named


def file_name(event: bytes) -> str:
    """Return the file that a ROTATE event names. Raises ValueError or OverflowError if no file of a log can be called so.

    What the server makes up for a dump carries a checksum, whatever the files have.
    """
    has_checksum = zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
    return Place.of_server(event[27 : -4 if has_checksum else None].decode(), FIRST_OFFSET).file


class SourceOffset(TypedDict):
    """A place of a stream as Spark and the store have it, in JSON."""

    epoch: int
    file: str
    position: int
    gtid: str
    """The global id of the last transaction before it; '' if it is not known."""
    prepared: NotRequired[dict[str, str]]
    """By its xid where each transaction lies that was prepared and is not committed yet: its start and end."""
    heartbeat: NotRequired[TrailBody]
    born: NotRequired[int]
    """When the file was made; see `read_born`."""
    server: NotRequired[str]
    """What identifies the server whose log it is in."""
    tracked: NotRequired[str]
    """Which tracker was brought up to it."""
    references: NotRequired[list[Any]]
    """The foreign keys whose cascades the source does not log."""
    known: NotRequired[dict[str, int]]
    """The last transaction that was read of each server, by earlier failovers."""
    left: NotRequired[dict[str, list[Any]]]
    """For each earlier epoch the server that was read, and up to which file and position."""


def as_offset(mark: Mark, epoch: int) -> SourceOffset:
    """Return the mark as an offset of Spark."""
    offset: SourceOffset = {"epoch": epoch, "file": mark.place.file, "position": mark.place.offset, "gtid": mark.gtid or ""}
    if mark.prepared:
        offset["prepared"] = {xid: f"{log_range.start}:{log_range.end}" for xid, log_range in sorted(mark.prepared.items())}
    if mark.trail:
        offset["heartbeat"] = mark.trail.to_json()
    if mark.born:
        offset["born"] = mark.born
    return offset


def from_offset(offset: Mapping[str, Any]) -> Mark:
    """Return the mark that ``as_offset`` made an offset of."""
    prepared = {}
    for xid, text in offset.get("prepared", {}).items():
        start, _, end = text.rpartition(":")
        prepared[xid] = LogRange(Place.parse(start), offsets([int(end)]))
    trail = Trail.from_json(offset["heartbeat"]) if "heartbeat" in offset else None
    return Mark(Place(offset["file"], offset["position"]), offset["gtid"] or None, prepared, trail, int(offset.get("born", 0)))
