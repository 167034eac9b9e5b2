"""Decode a range of a binary log to Arrow batches of events.

What cannot be replicated rightly, as statements instead of rows, is refused by an error that names the place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from auditor.errors import ConnectionLost, LogRefused, PositionLost, Unreachable
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.cascades import Cascades, Reference
from auditor.pipeline.binlog.compression import each_transaction_event, uncompressed_event
from auditor.pipeline.binlog.event_types import MALFORMED, refused
from auditor.pipeline.binlog.log_connection import Dump, Patience, Request, Source, other_server_id, query
from auditor.pipeline.binlog.ranges import BESIDE, LogRange, check_born, file_name, offsets
from auditor.pipeline.binlog.row_events import RowEvents, Stamp, TableNotes
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.table_statements import TableStatement, chosen_tables, refusal, savepoint, statement_of, table_statements
from auditor.pipeline.binlog.tracked_columns import unpack_versions
from auditor.pipeline.binlog.transactions import MariaDBTransactions, Transactions, prepared_xid, statement_span
from auditor.pipeline.events import Place

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
    notes: bool = False
    """Whether rows that are not available, and statements that change tables, are noted among the events; else such rows are refused."""
    tracked: bytes = b""
    """The columns of tables at each place, as `pack_versions` packs them; b"" if no tracker knows them."""
    references: tuple[Reference, ...] = ()
    """The source's foreign keys whose cascades its log does not hold."""

    def batches(self, log_range: LogRange) -> Batches:
        """Yield the events of the range, those of a table in the order of the stream; in a batch, those of one schema follow one another.

        A batch with its schema comes before the first one of a table. Raises LogRefused, PositionLost, AccessDenied, ConnectionLost or
        Unreachable when the patience is at its end, and EventsMissed, after all of them, if an event that the log sent is not among them.
        """
        notes = TableNotes() if self.notes else None
        tracked = unpack_versions(self.tracked) if self.tracked else None
        cascades = Cascades(self.references, self.selection) if notes else None
        rows = RowEvents(self.selection, self.source, notes, tracked, cascades)
        handed_on = 0
        for batch in (batch for batches in (_RangeReader(self, log_range, rows).read(), rows.flush()) for batch in batches):
            handed_on += batch.num_rows if batch["row"][0].as_py() >= 0 else 0
            yield batch
        rows.count.check(handed_on)
        if notes:
            yield from notes.flush()


class _RangeReader:
    """Reads one range. What events say of their own places is not believed: since MariaDB 11.4 most of them say nothing."""

    def __init__(self, reading: Reading, log_range: LogRange, rows: RowEvents, fate: Stamp | None = None) -> None:
        self._reading, self._range, self._rows = reading, log_range, rows
        self._fate = fate
        """What the rows of an XA transaction have from its commit; None where rows are read that are committed where they stand."""
        self._patience = Patience(reading.patience)
        self._file, self._ends = log_range.start.file, log_range.ends
        self._base = Place(self._file, 0).position(reading.epoch).pack()
        self._transactions = Transactions()
        self._passed = 0
        """How many transactions were passed."""
        self._stamp: Stamp | None = None
        """Of the transaction that is read. It stays when the connection is lost."""
        self._sent = self._taken = 0
        """How many events of that transaction this connection brought, and of how many of them everything was taken."""
        self._answers: dict[str, Sequence[Sequence[Any]]] = {}
        self._decided: _RangeReader | None = None
        """Reads the rows of the XA transaction that is committed here."""

    def read(self) -> Batches:
        """Yield batches that are full. After the connection was lost, continue from the last transaction end that was passed."""
        while self._passed < len(self._ends):
            dump: Dump | None = None
            try:
                dump = Dump(Request(self._reading.source, self._begin, other_server_id(), blocking=False))
                self._transactions, self._sent = MariaDBTransactions() if dump.mariadb else Transactions(), 0
                self._rows.begin(dump.mariadb)
                with refused(lambda: self._end):
                    yield from self._take(dump)
            except (ConnectionLost, Unreachable) as error:
                self._patience.wait(error)
            finally:
                if dump:
                    dump.close()

    @property
    def _begin(self) -> Place:
        """Where the transaction that is read begins."""
        return Place(self._file, self._ends[self._passed - 1]) if self._passed else self._range.start

    @property
    def _end(self) -> Place:
        """Where it ends."""
        return Place(self._file, self._ends[self._passed])

    def _take(self, dump: Dump) -> Batches:
        """Take events to the end of the range."""
        # The loops run for each event, so places are made only when they are reported.
        kinds, unpack, crc32, rows_types, last = (
            self._transactions.KINDS,
            types.HEADER.unpack_from,
            zlib.crc32,
            types.ROWS_TYPES,
            len(self._ends),
        )
        checksum, room, beside, counted = 0, self._end.offset - self._begin.offset, BESIDE, rows_types | kinds | {types.TABLE_MAP}
        for event, at, end in dump.events():
            seconds, kind, _, size, offset, flags = unpack(event, at)
            if kind in counted:
                room -= size
            else:
                beside -= size
            if room < 0 or beside < 0:
                raise ValueError("more events come than the log has before it")
            body, stop = at + HEADER_BYTES, end - checksum
            if checksum and crc32(event[at:stop]) != int.from_bytes(event[stop:end], "little"):
                raise PositionLost(
                    f"an event before {self._end} is damaged: its checksum is wrong; check the source's disk, then refresh the tables"
                )
            if kind in rows_types:
                yield from self._take_rows(kind, event, body, stop)
            elif kind == types.TABLE_MAP:
                self._rows.table_map(event[body:stop], self._stamp or self._current)
            elif kind in kinds:
                yield from self._transaction(kind, event, body, stop, offset, seconds)
                if self._passed == last:
                    return
                if self._stamp is None:
                    room = self._end.offset - self._begin.offset
            elif kind == types.FORMAT:
                checksum = types.checksum_bytes(event, end)
                check_born(self._reading.source, self._begin, self._range.born, seconds)
            elif kind == types.ROTATE:
                if not offset and file_name(event[at:stop]) != self._file:
                    break
            else:
                self._other(kind, event, body, stop, flags)
        raise PositionLost(f"the source's binary log ends before {self._end}; refresh the tables")

    @property
    def _current(self) -> Stamp:
        """What the rows of the transaction that is read have in common. Raises LogRefused if none has begun."""
        if self._stamp is None:
            raise LogRefused(f"{self._begin}: rows come after it that belong to no transaction; report this")
        return self._stamp

    def _is_new(self) -> bool:
        """Count an event of the transaction; return whether no earlier connection brought it."""
        self._sent += 1
        return self._sent > self._taken

    def _take_rows(self, kind: int, event: bytes, body: int, stop: int) -> Iterable[pa.RecordBatch]:
        """Take a rows event, unless it is passed by; return batches that are full."""
        self._rows.count_event(event, body)
        self._sent += 1
        if self._sent <= self._taken or self._is_held:
            self._rows.pass_by(event, body)
            return ()
        batches = self._rows.rows(kind, event, body, stop, self._stamp or self._current)
        self._taken = self._sent
        return batches

    @property
    def _is_held(self) -> bool:
        """Whether the rows of the transaction are read where it is committed, and not here."""
        return self._transactions.is_xa and self._fate is None

    def _transaction(self, kind: int, event: bytes, body: int, stop: int, offset: int, seconds: int) -> Batches:
        """Take an event that begins or ends a transaction."""
        transactions = self._transactions
        if kind == types.TRANSACTION_PAYLOAD:
            yield from self._payload(event[body:stop])
        was_in_block = transactions.in_block
        if transactions.open and kind in types.BEGINNINGS:
            raise ValueError("a transaction begins within another one")
        if was_in_block and kind in _STATEMENTS:
            self._statement_inside(kind, event, body, stop)
        is_end = transactions.feed(kind, event, body, stop)
        if self._stamp is None:
            committed = transactions.commit_time
            time = seconds * 1_000_000 if committed is None else committed
            self._stamp = self._fate or Stamp(transactions.gtid, time, self._base + self._ends[self._passed], self._file)
        if not is_end:
            return
        if offset != self._ends[self._passed]:
            raise PositionLost(f"no transaction ends at {self._end} in the source's binary log any more; refresh the tables")
        if self._fate is None:
            if not was_in_block and kind in _STATEMENTS:
                self._note_changes(kind, event, body, stop, self._stamp.position)
            if kind == types.XA_PREPARE and transactions.prepared is None:  # committed in one phase
                yield from self._decide(LogRange(self._begin, offsets([offset])), self._stamp)
            if transactions.decided and transactions.decided[1]:
                yield from self._decide(self._prepared_range(transactions.decided[0]), self._stamp)
        self._passed, self._stamp, self._sent, self._taken = self._passed + 1, None, 0, 0
        self._patience.reset()

    def _prepared_range(self, xid: str) -> LogRange:
        log_range = self._range.prepared.get(xid)
        if log_range is None:
            raise LogRefused(
                f"{self._end}: an XA transaction is committed that was prepared before the stream began; refresh the tables from here on"
            )
        return log_range

    def _decide(self, log_range: LogRange, fate: Stamp) -> Batches:
        """Read the rows of an XA transaction, which were passed by where it was prepared; continue where an earlier attempt failed."""
        self._decided = self._decided or _RangeReader(self._reading, log_range, self._rows, fate)
        yield from self._decided.read()
        self._decided = None

    def _payload(self, data: bytes) -> Batches:
        """Read the events of a compressed transaction, which have neither places nor checksums of their own."""
        with self._unpacking():
            is_held = prepared_xid(each_transaction_event(data)) is not None
        if is_held and self._fate is None:
            return  # until it is committed
        for event in self._unpacked(data):
            kind, stop = event[4], len(event)
            if kind in types.ROWS_TYPES:
                yield from self._take_rows(kind, event, HEADER_BYTES, stop)
            elif kind == types.TABLE_MAP:
                self._rows.table_map(event[HEADER_BYTES:], self._current)
            elif kind == types.QUERY:
                self._statement_inside(kind, event, HEADER_BYTES, stop)
            else:
                self._other(kind, event, HEADER_BYTES, stop, types.HEADER.unpack_from(event)[5])

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        with self._unpacking():
            yield from each_transaction_event(data)

    @contextmanager
    def _unpacking(self) -> Iterator[None]:
        """Raise what cannot be unpacked in the block as LogRefused."""
        try:
            yield
        except MALFORMED as error:
            raise LogRefused(f"{self._end}: a compressed transaction cannot be unpacked ({error}); report this") from error

    def _statement_inside(self, kind: int, event: bytes, body: int, stop: int) -> None:
        """Take a statement that is in a transaction beside rows: it writes some itself, or undoes some, or makes a table for them."""
        if not self._is_new():
            return
        text = _text(kind, event, body, stop)
        if reason := refusal(text):
            self._take_statement(statement_of(kind, event, body, stop), reason)
        elif action := savepoint(text):
            self._rows.at_savepoint(*action, self._current)
        if self._fate is None:
            self._note_changes(kind, event, body, stop, self._current.position - 1)
        self._taken = self._sent

    def _take_statement(self, statement: TableStatement, what: str) -> None:
        """Take a statement that stands for rows: what is read of the tables that it writes ends here."""
        chosen = chosen_tables(statement, self._reading.selection, self._ask)
        if chosen and self._rows.notes is None:
            raise LogRefused(
                f"{self._end}: the log holds {what} instead of rows; SET GLOBAL binlog_format = 'ROW' and for all sessions, then refresh"
                " the tables"
            )
        for name in chosen:
            self._rows.stop(
                name,
                f"the log holds {what} instead of rows; SET GLOBAL binlog_format = 'ROW' and for all sessions, skip this, then send the"
                " table's rows again: auditor pipeline refresh",
                self._current,
            )

    def _ask(self, statement: str) -> Sequence[Sequence[Any]]:
        """Return what the source answers, which is asked once in a range."""
        if statement not in self._answers:
            with closing(self._reading.source.connect()) as connection:
                self._answers[statement] = query(connection, statement)
        return self._answers[statement]

    def _note_changes(self, kind: int, event: bytes, body: int, stop: int, position: int) -> None:
        """Note what a statement does to tables that are read."""
        if self._rows.notes is not None and not self._transactions.is_void:
            for statement in table_statements(kind, event, body, stop):
                self._rows.statement(statement, position, self._current)

    def _other(self, kind: int, event: bytes, body: int, stop: int, flags: int) -> None:
        if kind not in types.BESIDE_ROWS and kind not in self._transactions.KINDS and not flags & types.IGNORABLE:
            raise LogRefused(
                f"{self._end}: an event before it has the type {kind}, which is not known; report this with the server's version"
            )
        if kind == types.PARTIAL_UPDATE:
            self._rows.count_event(event, body)
            if not self._is_new() or self._is_held:
                self._rows.pass_by(event, body)
            else:
                self._rows.partial_update(event, body, self._current)
                self._taken = self._sent
            return
        if kind == types.EXECUTE_LOAD_QUERY and self._is_new():
            self._take_statement(statement_of(kind, event, body, stop), "a statement (LOAD)")
            self._taken = self._sent
        if kind == types.INCIDENT:
            raise LogRefused(f"{self._end}: the source says that it lost events here; refresh the tables")


def _text(kind: int, event: bytes, body: int, stop: int) -> bytes:
    """Return the text of a statement, whose event has its body in ``event[body:stop]``."""
    begin = statement_span(event, body)
    return uncompressed_event(event[begin:stop]) if kind == types.MARIADB_QUERY_COMPRESSED else event[begin:stop]
