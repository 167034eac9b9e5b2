"""Take table maps and rows events, and collect the rows of the chosen tables as Arrow batches."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from auditor.errors import AuditorError, EventsMissed, LogRefused
from auditor.model import NoteKind
from auditor.pipeline.binlog import column_types
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.batches import CurrentRows, RowBuffer, announcements_of, batch_of
from auditor.pipeline.binlog.cascades import NO_CHECKS, Cascades, Reached
from auditor.pipeline.binlog.column_types import OLD_TIMES, YEAR
from auditor.pipeline.binlog.compression import packed_integer, uncompressed_event
from auditor.pipeline.binlog.ddl import changes_of, read_statement
from auditor.pipeline.binlog.event_types import MALFORMED
from auditor.pipeline.binlog.log_connection import Source, query
from auditor.pipeline.binlog.refreshes import (
    CHUNKS,
    REFRESH,
    Chunk,
    ChunkBuffer,
    read_chunk,
    refresh_buffer,
    sent_buffer,
    take_rows,
    take_sent,
)
from auditor.pipeline.binlog.selection import Origins, Selection, is_positions
from auditor.pipeline.binlog.table_map import (
    HIDDEN_TYPES,
    TableMap,
    check_old_times,
    is_fixed_binary,
    parse_table_map,
    table_name,
    with_hidden_types,
    with_short_years,
)
from auditor.pipeline.binlog.table_statements import TableStatement
from auditor.pipeline.binlog.tracked_columns import MINIMAL_WAYS, TrackedColumns, TrackedTable, complete
from auditor.pipeline.binlog.type_decoders import Decoder, make_decoder
from auditor.pipeline.events import ARROW_SCHEMA, SHORT_YEAR, EventKind, Place, Position
from dialects.mysql.expressions import MySQLNames


@dataclass(slots=True)
class Stamp:
    """What the rows of a transaction have in common; of an XA transaction, of that which commits it."""

    gtid: str | None
    time: int
    """Microseconds since 1970 at which it was committed."""
    position: int
    """Where it ends."""
    file: str
    """The log's file in which that is."""
    rows: int = 0
    """Rows so far, of the chosen tables; an event whose rows are not available counts as one."""
    left_out: bool = False
    """Whether a pipeline wrote it whose transactions are left out."""
    savepoints: dict[str, int] = field(default_factory=dict)
    """How many rows there were at each of its savepoints."""

    @property
    def place(self) -> Place:
        """Where it ends, for people."""
        return Place(self.file, Position.unpack(self.position).offset)


@dataclass(slots=True)
class LogCount:
    """What a task saw of the chosen tables, and what became of it."""

    sent: int = 0
    """Rows events that the dump brought."""
    taken: int = 0
    """Those that were decoded, or noted as refused."""
    passed: int = 0
    """Those that are taken elsewhere, were taken before, or are left out because a pipeline wrote them."""
    rows: int = 0
    """Rows that were decoded."""
    refused: int = 0
    """Those of them that were then noted as refused."""

    def check(self, handed_on: int) -> None:
        """Raise EventsMissed unless each event was dealt with, and each row was handed on."""
        if self.sent != self.taken + self.passed:
            raise EventsMissed(
                f"the log sent {self.sent:,} events of the tables that are read, and {self.taken + self.passed:,} were taken"
            )
        if self.rows != handed_on + self.refused:
            raise EventsMissed(f"{self.rows:,} rows were decoded, and {handed_on + self.refused:,} handed on")


Name = tuple[str, str]
"""Database and table."""


@dataclass(slots=True)
class _Poison:
    first: int
    row: int
    """The number of its first event in the transaction at ``first``."""
    last: int
    events: int
    time: int
    gtid: str | None
    reason: str


class TableNotes:
    """Notes on the chosen tables that were not handed on yet."""

    def __init__(self) -> None:
        self._poison: dict[Name, _Poison] = {}
        """For each table what ends with its last event."""
        self._rows: list[dict[str, Any]] = []

    def refuse(self, table: Name, position: int, row: int, time: int, gtid: str | None, reason: str) -> None:
        """Note an event of the log, of one table, whose rows are not available: number ``row`` of the transaction at a position."""
        poison = self._poison.get(table)
        if poison and poison.reason == reason:
            poison.last, poison.events = position, poison.events + 1
        else:
            self.pass_rows(table)
            self._poison[table] = _Poison(position, row, position, 1, time, gtid, reason)

    def pass_rows(self, table: Name) -> None:
        """Note that a table has rows that are available: what is refused later is another part of the log."""
        if poison := self._poison.pop(table, None):
            body = {"stage": "decoding", "reason": poison.reason}
            self._add(
                "poison",
                table,
                poison.first,
                poison.row,
                poison.time,
                poison.gtid,
                {"last": poison.last, "events": poison.events, "body": body},
            )

    def change(self, table: Name, position: int, time: int, gtid: str | None, body: Mapping[str, Any]) -> None:
        """Note a statement that changes a table."""
        self._add("change", table, position, -1, time, gtid, {"last": position, "events": 0, "body": dict(body)})

    def _add(self, kind: NoteKind, table: Name, position: int, row: int, time: int, gtid: str | None, content: Mapping[str, Any]) -> None:
        names = {"kind": kind, "database": table[0], "table": table[1], "schema_id": "", "gtid": gtid}
        place = {"position": position, "row": row, "time": time, "before": None, "after": [json.dumps(content, ensure_ascii=False)]}
        self._rows.append({**names, **place})

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the notes, as one batch."""
        for table in list(self._poison):
            self.pass_rows(table)
        if self._rows:
            rows, self._rows = self._rows, []
            yield pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA)


MAX_TABLES = 2_000
"""Table maps that are remembered, with their decoders, from one range to the next."""

HIDDEN_PERIOD, PERIOD_DIGITS = ("row_start", "row_end"), 6
"""The columns that a system-versioned table has where its definition names none, and the digits of their seconds."""

known_decoders: dict[tuple[bytes, bool, Source, TrackedTable | None], tuple[TableMap, Decoder]] = {}
"""Tables and their decoders by table map, whether MariaDB wrote it, source, and what a tracker knows of them. A worker of Spark keeps them
from one task to the next."""


def known_table(
    described: bytes, mariadb: bool, source: Source, place: Place, tracked: TrackedTable | None, like: tuple[str, str] | None = None
) -> tuple[TableMap, Decoder]:
    """Return the table of a table map and its decoder.

    ``tracked`` are its columns at that place, where a tracker knows them; ``like`` names the table whose columns it has. Raises LogRefused,
    and errors of a connection.
    """
    known = known_decoders.get((described, mariadb, source, tracked))
    if known is None:
        try:
            table = _described(parse_table_map(described, mariadb), mariadb, source, tracked, like)
            if mariadb and like is None:
                table = _with_period(table, source)
        except LogRefused as error:
            raise LogRefused(f"{place}: {error}") from error
        try:
            known = table, make_decoder(table)
        except AuditorError as error:
            raise LogRefused(f"{place}: {table.name}: {error}") from error
        if len(known_decoders) >= MAX_TABLES:
            known_decoders.clear()
        known_decoders[described, mariadb, source, tracked] = known
    return known


def _with_period(table: TableMap, source: Source) -> TableMap:
    """Return the table, with the columns of its period if it is system-versioned: its key then ends with that which ends the period.

    https://mariadb.com/kb/en/system-versioned-tables/
    """
    ends = table.key[-1] if table.key else 0
    if not table.key or table.columns[ends].type != column_types.TIMESTAMP2 or table.columns[ends].meta != PERIOD_DIGITS:
        return table
    computed = source.computed_columns(table.database, table.table)
    if computed.get(table.columns[ends].name) == "ROW END":
        return replace(table, ends=ends)
    last = tuple(range(len(table.columns)))[-len(HIDDEN_PERIOD) :]
    if tuple(table.columns[number].name for number in last) == HIDDEN_PERIOD and ends == last[-1] and HIDDEN_PERIOD[-1] not in computed:
        return replace(table, ends=ends, hidden=last)  # no catalogue has them
    return table


def _described(table: TableMap, mariadb: bool, source: Source, tracked: TrackedTable | None, like: tuple[str, str] | None) -> TableMap:
    """Return the table with the names of its columns. Raises LogRefused, without a place, if nobody knows them."""
    if not table.is_full:
        if tracked is None:
            raise LogRefused(f"{table.name} is logged without the names of its columns; {MINIMAL_WAYS}, then refresh the tables")
        return complete(table, tracked)
    if mariadb and any(is_fixed_binary(column, size) for column in table.columns for size in set(HIDDEN_TYPES.values())):
        return with_hidden_types(table, source.name_types(*(like or (table.database, table.table))))
    return table


MAX_BUFFERED = 32 << 20
"""Bytes of the log, of all tables, after which all buffered rows are handed on."""

LONGEST_KEPT = 2_000
"""Characters of a statement on a table that are kept with the note on it."""

MAX_TOGETHER = 256 << 10
"""Bytes of the log, of one table, from which its rows are a batch of their own."""


TRANSACTIONAL = """\
SELECT t.TABLE_SCHEMA, t.TABLE_NAME
FROM information_schema.TABLES t
JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE AND e.TRANSACTIONS = 'YES'
WHERE (t.TABLE_SCHEMA, t.TABLE_NAME) IN ({names})"""


@dataclass(frozen=True, slots=True)
class _Refused:
    """A chosen table whose rows are not available, because of what its table map says."""

    name: tuple[str, str]
    reason: str


class RowEvents:
    """Rows of the chosen tables, decoded and not yet handed on. With ``notes``, those that are not available are noted, not refused."""

    def __init__(
        self,
        selection: Selection,
        source: Source,
        notes: TableNotes | None = None,
        tracked: TrackedColumns | None = None,
        cascades: Cascades | None = None,
    ) -> None:
        """``tracked`` has the columns of tables whose names are missing in the log; ``cascades`` say what changes without an event."""
        self._selection = selection
        self._tracked = tracked
        self.notes = notes
        self._source = source
        self._mariadb = False
        self._buffers: dict[bytes | tuple[bytes, int], RowBuffer | _Refused | None] = {}
        """By what the log says of a table, and the number of its columns where a tracker knows them."""
        self._tables: dict[int, RowBuffer | _Refused | None] = {}
        self._origins: dict[int, Origins] = {}
        self._cascades = cascades
        self._parents: dict[int, tuple[Reached, bytes]] = {}
        """Tables from whose events others change without one, with their table maps."""
        self._filled: dict[tuple[str, str], RowBuffer] = {}
        """The buffer of each table that has its last rows: no other one of the table has any."""
        self._handed_on: dict[tuple[str, str], tuple[int, int]] = {}
        """Position and number of the last row of each table that was handed on."""
        self._bytes = self._announced = 0
        self.count = LogCount()
        self._chunk: Chunk | None = None
        """The chunk of a refresh that was named last."""

    def begin(self, mariadb: bool) -> None:
        """Begin with a new dump, whose events number the tables again."""
        self._mariadb = mariadb
        self._tables, self._origins, self._parents = {}, {}, {}

    def table_map(self, data: bytes, stamp: Stamp) -> None:
        """Take the body of a table map without its checksum. Raises LogRefused."""
        described, number = data[6:], int.from_bytes(data[:6], "little")
        self._origins.pop(number, None)
        schema, name = table_name(described)
        self._parents.pop(number, None)
        if self._cascades and (reached := self._cascades.of((schema, name))):
            self._parents[number] = reached, described
        if self._selection.refreshes and schema == self._selection.refreshes.schema:
            self._tables[number] = self._chunk_buffer(described, stamp)
            return
        if self._selection.skip_pipelines and is_positions(name) and (self._tracked is None or (schema, name) in self._tracked):
            self._origins[number] = Origins(*self._known(described, stamp), self._selection.skip_pipelines)
        key = described if self._tracked is None else (described, self._tracked.version((schema, name), stamp.position))
        try:
            buffer = self._buffers[key]
        except KeyError:
            buffer = self._new_buffer(described, stamp) if self._selection.has(schema, name) else None
            self._buffers[key] = buffer
        self._tables[number] = buffer

    def _known(self, described: bytes, stamp: Stamp, like: tuple[str, str] | None = None) -> tuple[TableMap, Decoder]:
        """Return the table of a table map as it is in a transaction, and its decoder. Raises LogRefused, and errors of a connection."""
        tracked = None
        if self._tracked is not None:
            name = table_name(described)
            tracked = self._tracked.table(name, self._tracked.version(name, stamp.position))
        return known_table(described, self._mariadb, self._source, stamp.place, tracked, like)

    def _known_now(self, described: bytes, stamp: Stamp, like: tuple[str, str] | None = None) -> tuple[TableMap, Decoder]:
        """Return what `_known` does, with what the log does not tell and a statement may have changed without a trace in a table map."""
        table, decode = self._known(described, stamp, like)
        kinds = {column.type for column in table.columns} if self._mariadb else set()
        if kinds & OLD_TIMES:
            check_old_times(table, self._source.name_types(table.database, table.table), like)
        if YEAR in kinds:
            table = with_short_years(table, self._source.name_types(*(like or (table.database, table.table))))
        return table, decode

    def _new_buffer(self, described: bytes, stamp: Stamp) -> RowBuffer | _Refused | None:
        try:
            table, decode = self._known_now(described, stamp)
            if table.is_sequence:
                return None
            return (RowBuffer if table.ends is None else CurrentRows)(table, decode)
        except (LogRefused, *MALFORMED) as error:
            if self.notes is None:
                raise
            return _Refused(table_name(described), str(error).removeprefix(f"{stamp.place}: "))

    def _chunk_buffer(self, described: bytes, stamp: Stamp) -> ChunkBuffer | _Refused | None:
        """Return the buffer of a table of refreshes; None for a refresh table whose chunk was not named."""
        (schema, name), chunk = table_name(described), self._chunk
        if name == CHUNKS:
            return ChunkBuffer(*self._known(described, stamp))
        if not name.startswith(REFRESH) or chunk is None:
            return None
        body = chunk.body
        version = self._tracked.version((schema, name), stamp.position) if self._tracked else 0
        whole = described + repr((version, body["database"], body["table"], body["key"], body["nullable"])).encode()
        if whole not in self._buffers:
            table = body["database"], body["table"]
            try:
                self._buffers[whole] = refresh_buffer(chunk, *self._known_now(described, stamp, table))
            except LogRefused as error:
                if self.notes is None:
                    raise
                self._buffers[whole] = _Refused(table, str(error).removeprefix(f"{stamp.place}: "))
        buffer = self._buffers[whole]
        assert isinstance(buffer, ChunkBuffer | _Refused)
        return buffer

    def _sent_buffer(self, chunk: Chunk) -> RowBuffer:
        """Return the buffer of the table whose rows a chunk holds."""
        described: str = chunk.body["schema"]
        buffer = self._buffers.get(described.encode())
        if not isinstance(buffer, RowBuffer):
            buffer = self._buffers[described.encode()] = sent_buffer(chunk)
        return buffer

    def count_event(self, event: bytes, body: int) -> None:
        """Count a rows event of the dump, whatever becomes of it, if its table is read. Raises ValueError if nothing says which that is."""
        number = int.from_bytes(event[body : body + 6], "little")
        if number not in self._tables and number != types.DUMMY_TABLE:
            raise ValueError(f"rows of the table number {number} come, which the log does not describe before them")
        self.count.sent += self._tables.get(number) is not None

    def pass_by(self, event: bytes, body: int) -> None:
        """Count a rows event that is taken where its transaction is committed, or was taken before."""
        self.count.passed += self._tables.get(int.from_bytes(event[body : body + 6], "little")) is not None

    def rows(self, kind: int, event: bytes, body: int, stop: int, stamp: Stamp) -> Iterable[pa.RecordBatch]:
        """Take a rows event, whose body lies in ``event[body:stop]``; return batches that are full. Raises LogRefused without ``notes``."""
        number = int.from_bytes(event[body : body + 6], "little")
        if self._origins and (origins := self._origins.get(number)):
            stamp.left_out = origins.is_left_out(*_rows_in(origins.table, kind, event, body, stop, stamp.place))
        if self._parents and not stamp.left_out and (parent := self._parents.get(number)):
            self._note_cascades(*parent, kind, event, body, stop, stamp)
        buffer = self._tables.get(number)
        if buffer is None:
            return ()
        if stamp.left_out:
            self.count.passed += 1
            return ()
        self.count.taken += 1
        if isinstance(buffer, _Refused):
            self._refuse(buffer.name, stamp, buffer.reason)
            return ()
        kept = len(buffer.before), len(buffer.after)
        try:
            taken = self._take(buffer, kind, event, body, stop, stamp)
        except LogRefused as error:
            if self.notes is None:
                raise
            del buffer.before[kept[0] :], buffer.after[kept[1] :]
            self._refuse((buffer.table.database, buffer.table.table), stamp, str(error).removeprefix(f"{stamp.place}: "))
            return ()
        if self.notes is not None and not isinstance(buffer, ChunkBuffer):
            self.notes.pass_rows((buffer.table.database, buffer.table.table))
        if not taken.rows:
            return ()
        name = taken.table.database, taken.table.table
        earlier, self._filled[name] = self._filled.get(name, taken), taken
        if earlier is not taken and earlier.rows:  # so that the batches of a table are in the order of its events
            return (*self._flush([earlier]), *self._full(taken))
        return self._full(taken)

    def _full(self, taken: RowBuffer) -> Iterable[pa.RecordBatch]:
        """Return what is due after rows were taken into this buffer."""
        if self._bytes >= MAX_BUFFERED:
            return self.flush()
        return self._flush([taken]) if taken.is_full else ()

    def _note_cascades(self, reached: Reached, described: bytes, kind: int, event: bytes, body: int, stop: int, stamp: Stamp) -> None:
        """Note the tables of which rows went or changed with the rows of an event, without an event of their own."""
        assert self.notes is not None
        if int.from_bytes(event[body + 6 : body + 8], "little") & NO_CHECKS:
            return
        pairs, what = [], ""
        if kind in types.DELETE_TYPES:
            pairs, what = list(reached.deleted), "deleted rows"
        elif kind in types.UPDATE_TYPES and reached.updated:
            changed = self._changed_columns(described, kind, event, body, stop, stamp)
            pairs = [(child, reference) for names, child, reference in reached.updated if changed is None or changed & names]
            what = "changed keys"
        for child, reference in dict(pairs).items():
            table = ".".join(child)
            reason = (
                f"{table}: an event of {'.'.join(reference.parent)} {what}, and by the foreign key {reference} rows of {table} may"
                " have gone or changed, which the source does not log; skip this, then send its rows again: auditor pipeline refresh"
            )
            self.notes.refuse(child, stamp.position, -1, stamp.time, stamp.gtid, reason)

    def _changed_columns(self, described: bytes, kind: int, event: bytes, body: int, stop: int, stamp: Stamp) -> set[str] | None:
        """Return the columns, in lower case, that an update changes; None if that is not known."""
        before: list[str | None] = []
        after: list[str | None] = []
        try:
            table, decode = self._known(described, stamp)
            decode(*_rows_in(table, kind, event, body, stop, stamp.place), before.extend, after.extend)
        except (LogRefused, *MALFORMED):
            return None
        names = [column.name.lower() for column in table.columns]
        return {name for place, name in enumerate(names) if before[place :: len(names)] != after[place :: len(names)]}

    def _refuse(self, table: tuple[str, str], stamp: Stamp, reason: str) -> None:
        assert self.notes is not None
        self.notes.refuse(table, stamp.position, stamp.rows, stamp.time, stamp.gtid, reason)
        stamp.rows += 1

    def _take(self, buffer: RowBuffer, kind: int, event: bytes, body: int, stop: int, stamp: Stamp) -> RowBuffer:
        """Decode the rows of an event into a buffer; return the one that has them. Raises LogRefused, perhaps with some of them there."""
        size, images = stop - body, 2 if kind in types.UPDATE_TYPES else 1
        event, at, stop = _rows_in(buffer.table, kind, event, body, stop, stamp.place)
        before, after = buffer.before.extend, buffer.after.extend
        name: EventKind
        kind_counts: list[tuple[EventKind, int]]
        if images == 2:
            name, first, second = "update", before, after
        elif kind in types.INSERT_TYPES:
            name, first, second = "insert", after, after
        else:
            name, first, second = "delete", before, before
        try:
            if isinstance(buffer, CurrentRows):
                kind_counts = buffer.take(name, event, at, stop)
                count = 0
            else:
                count = buffer.decode(event, at, stop, first, second) // images
                kind_counts = [(name, count)]
        except MALFORMED as error:
            raise LogRefused(
                f"{stamp.place}: a row of {buffer.table.name} cannot be decoded ({error}); leave the table out and report this"
            ) from error
        if isinstance(buffer, ChunkBuffer):
            if buffer.table.table == CHUNKS and self._selection.refreshes:
                self._chunk = read_chunk(buffer, self._selection.refreshes.pipeline, stamp)
                if self._chunk is None or "rows" not in self._chunk.body:
                    return buffer
                buffer = self._sent_buffer(self._chunk)
                kind_counts = take_sent(self._chunk, buffer)
            else:
                kind_counts = take_rows(self._chunk, buffer, count, stamp)
        for what, number in kind_counts:
            buffer.add(what, stamp.gtid, stamp.position, stamp.time, stamp.rows, number, size)
            stamp.rows += number
            self.count.rows += number
            self._bytes += size
        return buffer

    def partial_update(self, event: bytes, body: int, stamp: Stamp) -> None:
        """Refuse, or note, an update of a chosen table that holds a part of a JSON document only. Raises LogRefused."""
        buffer = self._tables.get(int.from_bytes(event[body : body + 6], "little"))
        if buffer is None:
            return
        self.count.taken += 1
        name = buffer.name if isinstance(buffer, _Refused) else (buffer.table.database, buffer.table.table)
        reason = (
            f"an update of {'.'.join(name)} holds a part of a JSON document only; SET GLOBAL binlog_row_value_options = '' and for all"
            " sessions, then refresh the tables"
        )
        if self.notes is None:
            raise LogRefused(f"{stamp.place}: {reason}")
        self._refuse(name, stamp, reason)

    def stop(self, table: tuple[str, str], reason: str, stamp: Stamp) -> None:
        """Note that a table cannot continue after the transaction before this one."""
        assert self.notes is not None
        self.notes.refuse(table, stamp.position, -1, stamp.time, stamp.gtid, f"{'.'.join(table)}: {reason}")

    def at_savepoint(self, verb: str, name: str, stamp: Stamp) -> None:
        """Take a SAVEPOINT, a RELEASE, or a ROLLBACK to it, or with the name '' of all rows. Raises LogRefused without ``notes``."""
        if verb == "SAVEPOINT":
            stamp.savepoints[name] = stamp.rows
        elif verb == "ROLLBACK":
            self._undo(stamp, stamp.savepoints.get(name, 0), is_known=not name or name in stamp.savepoints)

    def _undo(self, stamp: Stamp, first: int, is_known: bool) -> None:
        """Take back the rows of a transaction from a number on, those of tables that undid them; the other tables stop."""
        written = {name for name, last in self._handed_on.items() if last >= (stamp.position, first)}
        buffered = [
            buffer
            for buffer in self._buffers.values()
            if isinstance(buffer, RowBuffer) and buffer.rows and buffer.last >= (stamp.position, first)
        ]
        written |= {(buffer.table.database, buffer.table.table) for buffer in buffered}
        undone = _transactional(self._source, written) if written and is_known else set()
        undone -= {name for name, last in self._handed_on.items() if last >= (stamp.position, first)}
        if self.notes is None and written - undone:
            raise LogRefused(
                f"{stamp.place}: the log holds a ROLLBACK after rows that it may not have undone, of"
                f" {', '.join('.'.join(name) for name in sorted(written - undone))}; refresh the tables"
            )
        for buffer in buffered:
            if (buffer.table.database, buffer.table.table) in undone:
                self.count.rows -= buffer.take_back(stamp.position, first)
                if not buffer.rows:
                    self._bytes -= buffer.bytes
                    buffer.clear()
        for name in sorted(written - undone):
            reason = "rows of it stand in the log before a ROLLBACK that may not have undone them; skip this, then send its rows again"
            self.stop(name, f"{reason}: auditor pipeline refresh", stamp)

    def statement(self, statement: TableStatement, position: int, stamp: Stamp) -> None:
        """Note what a statement does to tables that are read."""
        if self.notes is not None:
            changes = read_statement(statement.characters, statement.database, statement.sql_mode)
            bodies = changes_of(changes, self._selection)
            for table, body in bodies.items():
                if self._mariadb and "beside" not in body:
                    named = self._source.name_types(*table)
                    body["ops"] += [{"op": "short_year", "column": name} for name, kind in named.items() if kind == SHORT_YEAR]
            for table, body in bodies.items():
                if not any(op["op"] == "rows" for op in body["ops"]):  # whose text may hold values of rows
                    body["statement"] = statement.characters[:LONGEST_KEPT]
                self.notes.change(table, position, stamp.time, stamp.gtid, body)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows that are buffered, and before the first ones of a table its schema."""
        filled = [buffer for buffer in self._buffers.values() if isinstance(buffer, RowBuffer) and buffer.rows]
        small = [buffer for buffer in filled if buffer.bytes < MAX_TOGETHER]
        yield from self._flush(small)
        for buffer in filled:
            if buffer.rows:
                yield from self._flush([buffer])

    def _flush(self, buffers: Sequence[RowBuffer]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of buffers of different tables as one batch; several buffers stay as they are if one batch cannot hold them."""
        if not buffers:
            return
        try:
            batch = batch_of(buffers)
        except LogRefused as error:
            if len(buffers) == 1:
                self._refuse_rows(buffers[0], error)
            return
        if unknown := [buffer for buffer in buffers if not buffer.is_announced]:
            yield announcements_of(unknown, self._announced)
            self._announced += len(unknown)
        for buffer in buffers:
            buffer.is_announced = True
            self._hand_on(buffer)
        yield batch

    def _refuse_rows(self, buffer: RowBuffer, error: LogRefused) -> None:
        """Note that the rows of a buffer are not available. Raises the error without ``notes``."""
        if self.notes is None:
            raise error
        self.count.refused += buffer.rows
        for gtid, position, row, time in buffer.places:
            self.notes.refuse((buffer.table.database, buffer.table.table), position, row, time, gtid, str(error))
        self._hand_on(buffer)

    def _hand_on(self, buffer: RowBuffer) -> None:
        self._bytes -= buffer.bytes
        self._handed_on[buffer.table.database, buffer.table.table] = buffer.last
        buffer.clear()


def _transactional(source: Source, tables: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of these tables whose engine undoes what a transaction wrote."""
    literal = MySQLNames().string_literal
    names = ", ".join(f"({literal(database)}, {literal(table)})" for database, table in sorted(tables))
    with closing(source.connect()) as connection:
        return {(str(database), str(table)) for database, table in query(connection, TRANSACTIONAL.format(names=names))}


def _rows_in(table: TableMap, kind: int, event: bytes, body: int, stop: int, place: Place) -> tuple[bytes, int, int]:
    """Return the bytes in which an event's rows are, unpacked if need be, and where they begin and end. Raises LogRefused."""
    at = body + 8
    if kind in types.ROWS_V2:
        at += event[at] | event[at + 1] << 8
    at = _skip_full_bitmaps(table, 2 if kind in types.UPDATE_TYPES else 1, event, at, place)
    if kind not in types.COMPRESSED_ROWS:
        return event, at, stop
    unpacked = uncompressed_event(event[at:stop])
    return unpacked, 0, len(unpacked)


def _skip_full_bitmaps(table: TableMap, images: int, event: bytes, at: int, place: Place) -> int:
    """Return where the rows begin, after the bitmaps that say which columns are there. Raises LogRefused if not all are."""
    width, at = packed_integer(event, at)
    if width != len(table.columns):
        raise LogRefused(f"{place}: a row of {table.name} has {width:,} columns, and its table {len(table.columns):,}; report this")
    size, full = (width + 7) // 8, (1 << width) - 1
    for _ in range(images):
        if int.from_bytes(event[at : at + size], "little") & full != full:
            raise LogRefused(
                f"{place}: a row of {table.name} does not have all columns; SET GLOBAL binlog_row_image = 'FULL' and for all sessions, then"
                " refresh the tables"
            )
        at += size
    return at
