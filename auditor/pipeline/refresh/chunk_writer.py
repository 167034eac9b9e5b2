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
from auditor.errors import AuditorError, ColumnsChanged, ConnectionLost, EngineError, LeaseTaken, StatementCancelled
from auditor.pipeline.binlog import column_types
from auditor.pipeline.binlog.dump import Source
from auditor.pipeline.binlog.number_and_time_texts import double_text, float_text
from auditor.pipeline.binlog.type_decoders import HIDDEN_TEXTS
from auditor.pipeline.events import ColumnSchema, source_kind
from auditor.pipeline.refresh.keys import Key, interval, one_of, quote, text_of
from auditor.pipeline.refresh.plan import MOST_KEYS, ChunkKeys, Next, Plan, Sent, read_next
from auditor.pipeline.refresh.source_tables import RefreshTable, SourceTables, ask, execute, fill, rollback
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
"""Rows of the first chunk, and of a later one at most."""

MOST_CHARACTERS = 3 << 20
"""Characters of the rows in one statement: with what it adds to them, less than the usual max_allowed_packet."""


@dataclass(slots=True)
class ChunkWriter:
    """Writes the chunks of one refresh; any number of processes may try, and one of them goes on."""

    tables: SourceTables
    source: Source
    """Where a second connection is made, to cancel a statement."""
    refresh: str
    plan: Plan
    attempt: str
    rows: int = field(default_factory=lambda: FIRST_ROWS)
    """Rows of the next chunk."""
    longest: float = 0.0
    """Seconds for which a chunk locked its rows at most."""
    _table: RefreshTable | None = field(default=None)

    def begin(self) -> Next:
        """Take the refresh over, and return where its next chunk begins. Raises errors of the source."""
        connection, literal = self.tables.connection, dialects.get("mysql").names.literal
        of_refresh = {"chunks": self.tables.chunks, "refresh": literal(self.refresh)}
        mine = {"pipeline": literal(self.tables.refreshes.pipeline), "attempt": literal(self.attempt)}
        ask(connection, fill("refresh_claim", **of_refresh, **mine))
        [(_, body)] = ask(connection, fill("refresh_state", **of_refresh))
        schema = self.plan.key.schema
        self._table = self.tables.make_table(schema.database, schema.table)
        return read_next(str(body)) or self.plan.first()

    def write(self, place: Next) -> tuple[Next, int]:
        """Write the chunk that begins at a place; return where the next one does, and the rows written.

        Raises LeaseTaken if another process went on with the refresh, and errors of the source; nothing is written then, or the whole
        chunk where the connection was lost during the commit.
        """
        if place.range < len(self.plan.ranges):
            end = self._find_end(place)
            high = self.plan.ranges[place.range][1] if end is None else end
            condition = interval(self.plan.key.chunked, place.low, high)
            return self._commit(place, self.plan.after(place, end), ChunkKeys(condition, self.plan.bounds(place, end)))
        keys = self.plan.keys[place.keys : place.keys + min(self.rows, MOST_KEYS)]
        chunk = ChunkKeys(one_of(self.plan.key.columns, keys), keys=keys)
        return self._commit(place, self.plan.after(place, None, len(keys)), chunk)

    def finish(self) -> None:
        """Delete what the source keeps of the refresh. Raises errors of the source."""
        refresh = dialects.get("mysql").names.literal(self.refresh)
        ask(self.tables.connection, fill("refresh_end", chunks=self.tables.chunks, refresh=refresh))

    def _find_end(self, place: Next) -> Key | None:
        """Return the last key of the chunk; None if it ends with its range."""
        columns = self.plan.key.chunked
        limits = ask(
            self.tables.connection,
            fill(
                "refresh_end_of_chunk",
                texts=", ".join(text_of(column) for column in columns),
                table=self._name,
                condition=interval(columns, place.low, self.plan.ranges[place.range][1]),
                key=", ".join(quote(column.name) for column in columns),
                offset=str(self.rows - 1),
            ),
        )
        return tuple(str(text) for text in limits[0]) if limits else None

    def _commit(self, place: Next, then: Next, chunk: ChunkKeys) -> tuple[Next, int]:
        assert self._table
        connection = self.tables.connection
        reach("chunk.begin")
        ask(connection, "BEGIN")
        began = time.monotonic()
        try:
            with _cancelled_after(durations().chunk_lock_limit, self.source, connection) as is_late:
                if self._table.name:
                    self._name_chunk(place.number, self.plan.body(chunk, then, self._table.nullable), place.number - 1)
                    began = time.monotonic()
                    written = self._copy(chunk.condition)
                else:
                    written = self._send(place, then, chunk, is_late)
            reach("chunk.commit")
            ask(connection, "COMMIT")
        except AuditorError as error:
            self.rows = max(1, self.rows // 4)
            if not isinstance(error, ConnectionLost):
                rollback(connection)
            raise
        seconds = time.monotonic() - began
        reach("chunk.committed")
        self.longest = max(self.longest, seconds)
        self.rows = max(1, min(MOST_ROWS, int(self.rows * min(2.0, max(0.25, durations().chunk_lock_aim / max(seconds, 0.001))))))
        if self._table.holds_rows:
            ask(connection, fill("refresh_clear", refresh_table=self._table.name))
        return then, written

    def _name_chunk(self, number: int, body: str, known: int) -> None:
        """Write what the chunk of this number is, after the one whose number the source knows. Raises LeaseTaken."""
        literal = dialects.get("mysql").names.literal
        attempt = {"refresh": literal(self.refresh), "attempt": literal(self.attempt), "known": str(known)}
        statement = fill("refresh_chunk", chunks=self.tables.chunks, number=str(number), body=literal(body), **attempt)
        if execute(self.tables.connection, statement) != 1:
            raise LeaseTaken("another process went on with this refresh")

    def _copy(self, condition: str) -> int:
        """Copy the rows of a chunk, and return how many. Raises ColumnsChanged: the next attempt has the new ones."""
        assert self._table
        connection = self.tables.connection
        columns = ", ".join(quote(name) for name in self._table.columns)
        ask(connection, fill("refresh_empty_row", refresh_table=self._table.name))
        reach("chunk.copy")
        rows = {"refresh_table": self._table.name, "columns": columns, "table": self._name, "condition": condition}
        written = execute(connection, fill("refresh_rows", **rows))
        self._check_columns()
        return written

    def _send(self, place: Next, then: Next, chunk: ChunkKeys, is_late: threading.Event) -> int:
        """Read the rows of a chunk and write them as texts into its own row, and return how many.

        Raises ColumnsChanged, and StatementCancelled where the rows were locked for too long between two statements, which nothing cancels.
        """
        assert self._table
        columns = logged_columns(self._table.described)
        reach("chunk.copy")
        query = {"texts": ", ".join(event_text(column) for column in columns), "table": self._name, "condition": chunk.condition}
        rows = event_rows(columns, ask(self.tables.connection, fill("refresh_texts", **query)))
        self._check_columns()
        known = place.number - 1
        for piece in pieces(rows, MOST_CHARACTERS):
            body = self.plan.body(chunk, then, Sent(columns, piece))
            if is_late.is_set():
                raise StatementCancelled(f"{len(rows):,} rows of {self.plan.key.name} would be locked for too long; fewer follow")
            self._name_chunk(place.number, body, known)
            chunk, known = ChunkKeys(chunk.condition), place.number
        return len(rows)

    def _check_columns(self) -> None:
        """Raise ColumnsChanged if the table has other columns than before. From here on it cannot be altered until the commit."""
        assert self._table
        schema = self.plan.key.schema
        if self.tables.describe(schema.database, schema.table) != self._table.described:
            raise ColumnsChanged(f"the columns of {self.plan.key.name} were changed; the refresh continues with the new ones")

    @property
    def _name(self) -> str:
        return f"{quote(self.plan.key.schema.database)}.{quote(self.plan.key.schema.table)}"


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
