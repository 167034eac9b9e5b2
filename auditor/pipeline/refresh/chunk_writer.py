"""Write chunks of existing rows into the source's log, each in one transaction that locks its rows for less than a second."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import dialects
from auditor.durations import durations
from auditor.errors import AuditorError, ColumnsChanged, ConnectionLost, EngineError, LeaseTaken, RefreshRefused, StatementCancelled
from auditor.pipeline.binlog import column_types
from auditor.pipeline.binlog.log_connection import Source
from auditor.pipeline.binlog.type_decoders import HIDDEN_TEXTS
from auditor.pipeline.events import ColumnSchema, source_kind
from auditor.pipeline.float_texts import double_text, float_text
from auditor.pipeline.refresh.keys import Key, interval, one_of, quote, text_of
from auditor.pipeline.refresh.plan import MOST_KEYS, ChunkKeys, Next, Plan, Sent, read_next
from auditor.pipeline.refresh.source_tables import RefreshTable, SourceTables, ask, ask_joined, execute, fill, rollback
from auditor.points import reach

_WIDTH = re.compile(rf"^({'|'.join(sorted(column_types.INTEGER_NAMES.values()))}|year(?=\(4)|float|double)\(\d+(,\d+)?\)")


def logged_columns(described: Sequence[tuple[Any, ...]]) -> tuple[ColumnSchema, ...]:
    """Return columns, of which the catalogue gave name, type, character set, collation and nullability, as the log describes them."""
    return tuple(ColumnSchema(name, _logged_type(native), null, charset) for name, native, charset, _, null in described)


def _logged_type(native: str) -> str:
    """Return a type without what the log does not hold: how wide a number is shown."""
    text = _WIDTH.sub(r"\1", native)
    return text if "(" in text and text.startswith(("enum", "set")) else text.replace(" zerofill", "")


def event_text(column: ColumnSchema) -> str:
    """Return SQL for the text of a column; of floating-point ones SQL for the number, which servers print in several ways."""
    kind, quoted = source_kind(column), quote(column.name)
    if _type_name(column) in ("float", "double"):
        return f"{quoted} + 0e0"
    if kind is None or kind.name == "binary":
        return f"LOWER(HEX({quoted}))"
    if kind.name in ("integer", "bit") or "unsigned" in column.type:
        return f"CAST({quoted} + 0 AS CHAR)"  # without the zeros of ZEROFILL
    return quoted if kind.is_free_text else f"CAST({quoted} AS CHAR)"


def event_rows(columns: Sequence[ColumnSchema], rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    """Return rows of ``event_text`` as texts of events."""
    texts = [_text_function(column) for column in columns]
    return [[None if value is None else text(value) for text, value in zip(texts, row, strict=True)] for row in rows]


def _text_function(column: ColumnSchema) -> Callable[[Any], str]:
    if _type_name(column) in ("float", "double"):
        return float_text if _type_name(column) == "float" else double_text
    if column.type == "inet6":
        return lambda text: HIDDEN_TEXTS["inet6"](socket.inet_pton(socket.AF_INET6, text))  # MariaDB shortens a single zero as well
    return str


def pieces(rows: list[list[str | None]], characters: int) -> list[list[list[str | None]]]:
    """Return the rows in pieces of about so many characters, each with a row at least; one empty piece for no rows."""
    batches: list[list[list[str | None]]] = [[]]
    left = characters
    for row in rows:
        size = sum(len(text or "") + 4 for text in row)
        if batches[-1] and size > left:
            batches.append([])
            left = characters
        batches[-1].append(row)
        left -= size
    return batches


def _type_name(column: ColumnSchema) -> str:
    return column.type.split(" ")[0]


FIRST_ROWS, MOST_ROWS = 500, 50_000
"""Rows of the first transaction, and of a later one at most."""

FEW_ROWS, MOST_TABLES = 5_000, 20
"""A transaction may have the rows of several tables with fewer rows than the first, as many as the second at most."""

LEAST_COST = 50
"""Rows as which a table of a transaction counts that has fewer."""

MOST_CHARACTERS = 3 << 20
"""Characters of the rows in one statement: with what it adds to them, less than the usual max_allowed_packet."""


@dataclass(slots=True)
class Sending:
    """One refresh that is being sent: its chunks, and where the next one begins."""

    refresh: str
    plan: Plan
    place: Next = field(default_factory=Next)
    table: RefreshTable | None = None
    rows: int = field(default_factory=lambda: FIRST_ROWS)
    """Rows of the next chunk, where it is alone in a transaction."""
    left: int | None = None
    """How many rows the rest of its range had; None if they are not few, or were not counted."""

    @property
    def is_done(self) -> bool:
        """Return whether no chunk is left."""
        return self.plan.is_done(self.place)

    @property
    def table_name(self) -> tuple[str, str]:
        """Database and table."""
        return self.plan.key.schema.database, self.plan.key.schema.table

    @property
    def sql(self) -> str:
        """The table as SQL text."""
        return ".".join(quote(part) for part in self.table_name)

    @property
    def is_in_range(self) -> bool:
        """Return whether the next chunk is an interval of keys, and no list of them."""
        return self.place.range < len(self.plan.ranges)


@dataclass(frozen=True, slots=True)
class Written:
    """A chunk that was written."""

    sending: Sending
    rows: int
    seconds: float
    """For which its rows were locked at most."""


@dataclass(slots=True)
class ChunkWriter:
    """Writes the chunks of refreshes over one connection; any number of processes may try, and one of them goes on."""

    tables: SourceTables
    source: Source
    """Where a second connection is made, to cancel a statement."""
    attempt: str
    rows: int = field(default_factory=lambda: FIRST_ROWS)
    """Rows of the next transaction that has several tables."""
    at_work: Sending | None = field(default=None)
    """The refresh whose statement ran last: an error is its own. None where a statement was about several."""

    def begin(self, sendings: Sequence[Sending]) -> None:
        """Take refreshes over, and find where the next chunk of each begins. Raises errors of the source."""
        connection, literal = self.tables.connection, dialects.get("mysql").names.literal
        self.at_work = None
        attempt, pipeline = literal(self.attempt), literal(self.tables.refreshes.pipeline)
        rows = ", ".join(f"({literal(sending.refresh)}, {pipeline}, {attempt}, 0, '')" for sending in sendings)
        ask(connection, fill("refresh_claim", chunks=self.tables.chunks, rows=rows, attempt=attempt))
        bodies = dict(ask(connection, fill("refresh_state", chunks=self.tables.chunks, refreshes=_listed(sendings))))
        for sending, table in zip(sendings, self.tables.make_tables([sending.table_name for sending in sendings]), strict=True):
            self.at_work = sending
            if not table.described:
                raise RefreshRefused(f"the source has no table {sending.plan.key.name}")
            sending.table, sending.left = table, None
            sending.place = read_next(str(bodies.get(sending.refresh) or "")) or sending.plan.first()
        self.at_work = None

    def count(self, sendings: Sequence[Sending]) -> None:
        """Count the rows of tables that may be few, so that several of these are written at once. Raises errors of the source."""
        self.at_work = None
        ranged = [sending for sending in sendings if sending.is_in_range and not sending.is_done]
        asked = [{"table": sending.sql, "condition": self._rest(sending), "most": str(FEW_ROWS)} for sending in ranged]
        for number, few in ask_joined(self.tables.connection, "refresh_few", asked):
            ranged[int(number)].left = int(few) if int(few) < FEW_ROWS else None

    def write(self, sendings: Sequence[Sending]) -> list[Written]:
        """Write the next chunk of the first refresh, and of those after it that have room in the same transaction; return these.

        Raises LeaseTaken if another process went on with a refresh, and errors of the source; nothing is written then, or all chunks
        where the connection was lost during the commit.
        """
        chosen, connection = self._choose(sendings), self.tables.connection
        first = self._plan(chosen[0], has_room=chosen[0].left is not None and chosen[0].left <= self.rows)
        reach("chunk.begin")
        ask(connection, "BEGIN")
        began, written = time.monotonic(), list[tuple[Sending, Next, int]]()
        try:
            with _cancelled_after(durations().chunk_lock_limit, self.source, connection) as is_late:
                for sending in chosen:
                    chunk, then = self._plan(sending, has_room=True) if written else first
                    self.at_work = sending
                    if sending.table and sending.table.name:
                        self._name_chunk(sending, chunk, then)
                        began = began if written else time.monotonic()  # nothing is locked before
                        rows = self._copy(sending, chunk)
                    else:
                        rows = self._send(sending, chunk, then, is_late)
                    written.append((sending, then, rows))
                    if time.monotonic() - began > durations().chunk_lock_aim:
                        break
                self._check_columns([sending for sending, *_ in written if sending.table and sending.table.name])
            self.at_work = written[0][0] if len(written) == 1 else None
            reach("chunk.commit")
            ask(connection, "COMMIT")
        except AuditorError as error:
            self._shrink(chosen)
            if not isinstance(error, ConnectionLost):
                rollback(connection)
            raise
        seconds = time.monotonic() - began
        reach("chunk.committed")
        self._grow([sending for sending, *_ in written], seconds)
        for sending, then, rows in written:
            sending.left = max(0, sending.left - rows) if sending.left is not None and then.range == sending.place.range else None
            sending.place = then
        for sending, *_ in written:
            if sending.table and sending.table.holds_rows:
                self.at_work = sending
                ask(connection, fill("refresh_clear", refresh_table=sending.table.name))
        self.at_work = None
        return [Written(sending, rows, seconds) for sending, _, rows in written]

    def finish(self, sendings: Sequence[Sending]) -> None:
        """Delete what the source keeps of refreshes. Raises errors of the source."""
        self.at_work = None
        ask(self.tables.connection, fill("refresh_end", chunks=self.tables.chunks, refreshes=_listed(sendings)))

    def _choose(self, sendings: Sequence[Sending]) -> list[Sending]:
        """Return the refreshes of the next transaction: the first alone, unless its rows are few, with others that are."""
        first, *others = sendings
        if first.left is None or first.left > self.rows:
            return [first]
        chosen, room = [first], self.rows - max(first.left, LEAST_COST)
        for sending in others:
            if sending.left is not None and max(sending.left, LEAST_COST) <= room and len(chosen) < MOST_TABLES:
                chosen.append(sending)
                room -= max(sending.left, LEAST_COST)
        return chosen

    def _plan(self, sending: Sending, *, has_room: bool) -> tuple[ChunkKeys, Next]:
        """Return the next chunk of a refresh, and where the one after it begins. A chunk that has room goes to the end of its range."""
        self.at_work = sending
        plan, place = sending.plan, sending.place
        if sending.is_in_range:
            end = None if has_room else self._find_end(sending)
            condition = self._rest(sending, end)
            return ChunkKeys(condition, plan.bounds(place, end)), plan.after(place, end)
        keys = plan.keys[place.keys : place.keys + min(sending.rows, MOST_KEYS)]
        return ChunkKeys(one_of(plan.key.columns, keys), keys=keys), plan.after(place, None, len(keys))

    def _rest(self, sending: Sending, end: Key | None = None) -> str:
        """Return the condition of the rows from where the next chunk begins up to a key, or to the end of the range."""
        place, plan = sending.place, sending.plan
        return interval(plan.key.chunked, place.low, plan.ranges[place.range][1] if end is None else end)

    def _find_end(self, sending: Sending) -> Key | None:
        """Return the last key of the chunk; None if it ends with its range."""
        columns = sending.plan.key.chunked
        limits = ask(
            self.tables.connection,
            fill(
                "refresh_end_of_chunk",
                texts=", ".join(text_of(column) for column in columns),
                table=sending.sql,
                condition=self._rest(sending),
                key=", ".join(quote(column.name) for column in columns),
                offset=str(sending.rows - 1),
            ),
        )
        return tuple(str(text) for text in limits[0]) if limits else None

    def _shrink(self, chosen: Sequence[Sending]) -> None:
        """Take fewer rows after a failure, and each refresh alone."""
        if len(chosen) > 1:
            self.rows = max(1, self.rows // 4)
        for sending in chosen:
            sending.left = None
        if len(chosen) == 1:
            chosen[0].rows = max(1, chosen[0].rows // 4)

    def _grow(self, written: Sequence[Sending], seconds: float) -> None:
        """Take so many rows next that they are locked for about as long as they should be."""
        factor = min(2.0, max(0.25, durations().chunk_lock_aim / max(seconds, 0.001)))
        self.rows = max(1, min(MOST_ROWS, int(self.rows * factor)))
        if len(written) == 1:
            written[0].rows = max(1, min(MOST_ROWS, int(written[0].rows * factor)))

    def _name_chunk(self, sending: Sending, chunk: ChunkKeys, then: Next) -> None:
        assert sending.table
        self._store_chunk(sending, sending.plan.body(chunk, then, sending.table.nullable), sending.place.number - 1)

    def _store_chunk(self, sending: Sending, body: str, known: int) -> None:
        """Write what the next chunk of a refresh is, after the one whose number the source knows. Raises LeaseTaken."""
        literal = dialects.get("mysql").names.literal
        attempt = {"refresh": literal(sending.refresh), "attempt": literal(self.attempt), "known": str(known)}
        statement = fill("refresh_chunk", chunks=self.tables.chunks, number=str(sending.place.number), body=literal(body), **attempt)
        if execute(self.tables.connection, statement) != 1:
            raise LeaseTaken("another process went on with this refresh")

    def _copy(self, sending: Sending, chunk: ChunkKeys) -> int:
        """Copy the rows of a chunk, and return how many."""
        assert sending.table
        connection, table = self.tables.connection, sending.table
        columns = ", ".join(quote(name) for name in table.columns)
        ask(connection, fill("refresh_empty_row", refresh_table=table.name))
        reach("chunk.copy")
        rows = {"refresh_table": table.name, "columns": columns, "table": sending.sql, "condition": chunk.condition}
        return execute(connection, fill("refresh_rows", **rows))

    def _send(self, sending: Sending, chunk: ChunkKeys, then: Next, is_late: threading.Event) -> int:
        """Read the rows of a chunk and write them as texts into its own row, and return how many.

        Raises ColumnsChanged, and StatementCancelled where the rows were locked for too long between two statements, which nothing cancels.
        """
        assert sending.table
        columns = logged_columns(sending.table.described)
        reach("chunk.copy")
        query = {"texts": ", ".join(event_text(column) for column in columns), "table": sending.sql, "condition": chunk.condition}
        rows = event_rows(columns, ask(self.tables.connection, fill("refresh_texts", **query)))
        self._check_columns([sending])
        known = sending.place.number - 1
        for piece in pieces(rows, MOST_CHARACTERS):
            body = sending.plan.body(chunk, then, Sent(columns, piece))
            if is_late.is_set():
                raise StatementCancelled(f"{len(rows):,} rows of {sending.plan.key.name} would be locked for too long; fewer follow")
            self._store_chunk(sending, body, known)
            chunk, known = ChunkKeys(chunk.condition), sending.place.number
        return len(rows)

    def _check_columns(self, sendings: Sequence[Sending]) -> None:
        """Raise ColumnsChanged if a table has other columns than before: the next attempt has the new ones.

        From here on they cannot be altered until the commit.
        """
        found = self.tables.describe([sending.table_name for sending in sendings]) if sendings else []
        for sending, columns in zip(sendings, found, strict=True):
            self.at_work = sending
            if sending.table and columns != sending.table.described:
                raise ColumnsChanged(f"the columns of {sending.plan.key.name} were changed; the refresh continues with the new ones")


def _listed(sendings: Sequence[Sending]) -> str:
    return ", ".join(dialects.get("mysql").names.literal(sending.refresh) for sending in sendings)


@contextmanager
def _cancelled_after(seconds: float, source: Source, connection: Any) -> Iterator[threading.Event]:
    """Cancel the statement of a connection, over a second one, if the block lasts longer; yield what is set then."""
    is_late, lock, is_over, thread = threading.Event(), threading.Lock(), threading.Event(), connection.thread_id()

    def cancel() -> None:
        is_late.set()
        with suppress(EngineError), closing(source.connect()) as killer, lock:
            if not is_over.is_set():
                ask(killer, f"KILL QUERY {thread}")

    timer = threading.Timer(seconds, cancel)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        with lock:  # what is cancelled later would be the next statement
            is_over.set()
