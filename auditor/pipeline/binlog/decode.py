"""Decode a range of a binary log to Arrow batches of events.

What cannot be replicated rightly, as statements instead of rows, is refused by an error that names the place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from auditor.errors import ConnectionLost, LogRefused, PositionLost, Unreachable
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.batches import Project, unchanged
from auditor.pipeline.binlog.compression import each_transaction_event, uncompressed_event
from auditor.pipeline.binlog.dump import Dump, Patience, Request, Source, other_server_id
from auditor.pipeline.binlog.place import Place
from auditor.pipeline.binlog.ranges import LogRange, file_name
from auditor.pipeline.binlog.row_events import RowEvents, Stamp
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.statements import TABLE_STATEMENT, refusal
from auditor.pipeline.binlog.table_notes import TableNotes
from auditor.pipeline.binlog.tracked_columns import unpack_versions
from auditor.pipeline.binlog.transactions import MariaDBTransactions, Transactions, prepared_xid, statement_span

HEADER_BYTES = types.HEADER.size

_STATEMENTS = (types.QUERY, types.MARIADB_QUERY_COMPRESSED)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Reading:
    """What is decoded of a source's log."""

    source: Source
    selection: Selection
    epoch: int
    patience: float
    """Seconds for which a source that went away is waited for."""
    project: Project = unchanged
    notes: bool = False
    """Whether rows that cannot be had, and statements that change tables, are noted among the events; else such rows are refused."""
    tracked: bytes = b""
    """The columns of tables at each place, as `pack_versions` packs them; b"" if no tracker knows them."""

    def batches(self, log_range: LogRange) -> Batches:
        """Yield the events of the range, each batch of one table and schema, those of a table in the order of the stream.

        A batch with the schema comes before the first of a table. Raises LogRefused, PositionLost, AccessDenied, and ConnectionLost or
        Unreachable when the patience is at its end.
        """
        notes = TableNotes() if self.notes else None
        tracked = unpack_versions(self.tracked) if self.tracked else None
        rows = RowEvents(self.selection, self.project, self.source, notes, tracked)
        yield from _RangeReader(self, log_range, rows).read()
        yield from rows.flush()
        if notes:
            yield from notes.flush()


class _RangeReader:
    """Reads one range. Offsets are in the file of the range."""

    def __init__(self, reading: Reading, log_range: LogRange, rows: RowEvents, fate: Stamp | None = None, is_replay: bool = False) -> None:
        self._reading, self._range, self._rows = reading, log_range, rows
        self._fate = fate
        self._is_replay = is_replay
        """Whether rows of an XA transaction are read that is committed now; ``fate`` is what they have from that commit."""
        self._patience = Patience(reading.patience)
        self._file = log_range.start.file
        self._base = Place(self._file, 0).position(reading.epoch).pack()
        self._transactions = Transactions()
        self._stamp = Stamp(None, 0)
        self._payload_end = 0
        """The position of the compressed transaction that is unpacked."""
        self._safe = self._done = log_range.start.offset
        """Where the last transaction ended, and the last event of which everything was taken."""

    def read(self) -> Batches:
        """Yield batches that are full. After the connection was lost, go on from the last transaction end that was passed."""
        while self._safe < self._range.end:
            dump: Dump | None = None
            try:
                dump = Dump(Request(self._reading.source, Place(self._file, self._safe), other_server_id(), blocking=False))
                self._transactions = MariaDBTransactions() if dump.mariadb else Transactions()
                self._rows.begin(dump.mariadb)
                yield from self._take(dump)
            except (ConnectionLost, Unreachable) as error:
                self._patience.wait(error)
            finally:
                if dump:
                    dump.close()

    def _take(self, dump: Dump) -> Batches:
        """Take events to the end of the range."""
        rows, kinds, unpack, crc32 = self._rows, self._transactions.KINDS, types.HEADER.unpack_from, zlib.crc32
        checksum = 0
        for event, at, end in dump.events():
            stamp, kind, _, _, offset, _ = unpack(event, at)
            body, stop = at + HEADER_BYTES, end - checksum
            if checksum and crc32(event[at:stop]) != int.from_bytes(event[stop:end], "little"):
                raise PositionLost(
                    f"the event that ends at {self._place(offset)} is damaged: its checksum is wrong; check the source's disk, then"
                    " bootstrap the tables again"
                )
            if kind in types.ROWS_TYPES:
                if offset > self._done and (not self._transactions.is_xa or self._is_replay):
                    yield from rows.rows(kind, event, body, stop, self._base + offset, self._stamp, self._file)
            elif kind == types.TABLE_MAP:
                rows.table_map(event[body:stop], self._file, self._base + offset)
            elif kind in kinds:
                yield from self._transaction(kind, event, body, stop, offset, stamp)
                if self._safe >= self._range.end:
                    return
            elif kind == types.FORMAT:
                checksum = types.checksum_bytes(event, end)
            elif kind == types.ROTATE:
                if not offset and file_name(event[at:stop]) != self._file:
                    break
            else:
                self._other(kind, event, body, offset)
            self._done = max(self._done, offset)
        raise PositionLost(f"the source's binary log ends before {self._place(self._range.end)}; bootstrap the tables again")

    def _place(self, offset: int) -> Place:
        return Place(self._file, offset)

    def _transaction(self, kind: int, event: bytes, body: int, stop: int, offset: int, stamp: int) -> Batches:
        """Take an event that begins or ends a transaction."""
        transactions, is_new = self._transactions, offset > self._done
        if kind == types.TRANSACTION_PAYLOAD and is_new:
            yield from self._payload(event[body:stop], offset)
        was_open, was_in_block = transactions.open, transactions.in_block
        if transactions.in_block and kind in (types.QUERY, types.MARIADB_QUERY_COMPRESSED):
            self._check_statement(kind, event, body, stop, offset)
        if not transactions.feed(kind, event, body, stop):
            if not was_open and is_new:
                committed = transactions.commit_time
                self._stamp = self._fate or Stamp(transactions.gtid, stamp * 1_000_000 if committed is None else committed)
            return
        if is_new and not was_in_block and kind in _STATEMENTS:
            self._note_changes(kind, event, body, stop, self._base + offset)
        if is_new and not self._is_replay:
            if kind == types.XA_PREPARE and transactions.prepared is None:  # committed in one phase
                yield from self._replay(LogRange(self._place(self._safe), offset), None)
            if transactions.decided and transactions.decided[1]:
                fate = Stamp(transactions.gtid, self._stamp.time, position=self._base + offset)
                yield from self._replay(self._prepared_range(transactions.decided[0], offset), fate)
        self._safe = offset
        self._patience.reset()

    def _prepared_range(self, xid: str, offset: int) -> LogRange:
        found = self._range.prepared.get(xid)
        if found is None:
            raise LogRefused(
                f"{self._place(offset)}: an XA transaction is committed that was prepared before the stream began; bootstrap the tables"
                " again from here on"
            )
        return found

    def _replay(self, log_range: LogRange, fate: Stamp | None) -> Batches:
        """Read the rows of an XA transaction, which were passed over where it was prepared."""
        yield from _RangeReader(self._reading, log_range, self._rows, fate, is_replay=True).read()

    def _payload(self, data: bytes, offset: int) -> Batches:
        """Read the events of a compressed transaction, which have neither places nor checksums of their own."""
        with self._unpacking(offset):
            is_held = prepared_xid(each_transaction_event(data)) is not None
        if is_held and not self._is_replay:
            return  # until it is committed
        self._payload_end = self._base + offset
        for event in self._unpacked(data, offset):
            kind, stop = event[4], len(event)
            if kind in types.ROWS_TYPES:
                yield from self._rows.rows(kind, event, HEADER_BYTES, stop, self._base + offset, self._stamp, self._file)
            elif kind == types.TABLE_MAP:
                self._rows.table_map(event[HEADER_BYTES:], self._file, self._base + offset)
            elif kind == types.QUERY:
                self._check_statement(kind, event, HEADER_BYTES, stop, offset)
            else:
                self._other(kind, event, HEADER_BYTES, offset)

    def _unpacked(self, data: bytes, offset: int) -> Iterator[bytes]:
        with self._unpacking(offset):
            yield from each_transaction_event(data)

    @contextmanager
    def _unpacking(self, offset: int) -> Iterator[None]:
        """Raise what cannot be unpacked in the block as LogRefused."""
        try:
            yield
        except (ValueError, KeyError, IndexError, OSError) as error:
            raise LogRefused(f"{self._place(offset)}: a compressed transaction cannot be unpacked ({error}); report this") from error

    def _check_statement(self, kind: int, event: bytes, body: int, stop: int, offset: int) -> None:
        text = _text(kind, event, body, stop)
        if reason := refusal(text, self._stamp.rows):
            raise self._statement_refused(offset, reason)
        if offset > self._done and not self._is_replay:
            # Rows of a compressed transaction have the position of its end: what it does to tables comes before them.
            is_inside = self._base + offset == self._payload_end
            self._note_changes(kind, event, body, stop, self._base + (self._safe + 1 if is_inside else offset))

    def _note_changes(self, kind: int, event: bytes, body: int, stop: int, position: int) -> None:
        """Note what a statement does to tables that are read."""
        text = _text(kind, event, body, stop)
        if self._rows.notes is not None and TABLE_STATEMENT.match(text):
            name = statement_span(event, body) - 1
            database = event[name - event[body + 8] : name].decode(errors="replace")
            self._rows.statement(text.decode(errors="replace"), database, position, self._stamp)

    def _statement_refused(self, offset: int, reason: str) -> LogRefused:
        return LogRefused(
            f"{self._place(offset)}: the log holds {reason} instead of rows; SET GLOBAL binlog_format = 'ROW' and for all sessions, then"
            " bootstrap the tables again"
        )

    def _other(self, kind: int, event: bytes, body: int, offset: int) -> None:
        if kind == types.PARTIAL_UPDATE:
            if offset > self._done and (not self._transactions.is_xa or self._is_replay):
                self._rows.partial_update(event, body, self._file, self._base + offset, self._stamp)
            return
        if kind in types.STATEMENT_TYPES:
            raise self._statement_refused(offset, types.STATEMENT_TYPES[kind])
        if kind == types.INCIDENT:
            raise LogRefused(f"{self._place(offset)}: the source says that it lost events here; bootstrap the tables again")


def _text(kind: int, event: bytes, body: int, stop: int) -> bytes:
    """Return the text of a statement, whose event has its body in ``event[body:stop]``."""
    begin = statement_span(event, body)
    return uncompressed_event(event[begin:stop]) if kind == types.MARIADB_QUERY_COMPRESSED else event[begin:stop]
