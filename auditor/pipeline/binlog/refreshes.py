"""Recognise the chunks of refreshes in the log.

The transaction of a chunk writes into a schema of its own on the source (`auditor.pipeline.refresh` makes it): first a row of the table
``chunks`` says of which table the chunk is, and its bounds; then an empty row goes into that table's refresh table, whose columns are thus
logged also where no row follows; then the rows, as they are in the source at this place of the log. Where a refresh may make no tables,
the row of ``chunks`` holds the rows as well, as texts of events, and the table's columns.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import dialects
from auditor.config import Settings
from auditor.errors import LogRefused
from auditor.pipeline.binlog import column_types
from auditor.pipeline.binlog.batches import RowBuffer
from auditor.pipeline.binlog.table_map import Column, TableMap
from auditor.pipeline.binlog.type_decoders import Decoder
from auditor.pipeline.events import EventKind, TableSchema

CHUNKS = "chunks"
"""The table that says what chunk a transaction is."""

REFRESH = "refresh_"
"""What the names of refresh tables begin with."""


SCHEMA = "auditor_refresh"
"""The schema in which refreshes write, unless the URL by which they write names another."""


@dataclass(frozen=True, slots=True)
class Refreshes:
    """The refreshes whose rows are events."""

    schema: str
    """Where they write on the source."""
    pipeline: str
    """The one that asked for them: those of others are passed over."""


def refreshes_of(settings: Settings, name: str) -> Refreshes:
    """Return where refreshes of a pipeline write on its source. Raises UnknownPipeline, and ConfigError if it reads topics."""
    source = settings.pipeline(name).of_log("a refresh")
    schema = dialects.parse_url(settings.connections[source.refresh].url).database if source.refresh else ""
    return Refreshes(schema or SCHEMA, name)


class ChunkBuffer(RowBuffer):
    """Rows of a table of the schema of refreshes: of ``chunks``, which are never handed on, or of a refresh table."""


@dataclass(frozen=True)
class SentTable(TableMap):
    """A table whose columns a chunk states, because the log has no table map of them."""

    sent: TableSchema

    @property
    def schema(self) -> TableSchema:
        """The table's columns, as the chunk states them."""
        return self.sent


@dataclass(slots=True)
class Chunk:
    """The chunk of one transaction."""

    transaction: object
    body: dict[str, Any]
    is_open: bool = False
    """Whether its bounds were taken."""

    def row(self, table: TableMap, key: list[str | None] | None) -> list[str | None]:
        """Return a row of the table that has these first values of the key alone."""
        row: list[str | None] = [None] * len(table.columns)
        for number, text in zip(table.key, key or (), strict=False):
            row[number] = text
        return row


def read_chunk(buffer: ChunkBuffer, pipeline: str, transaction: object) -> Chunk | None:
    """Take the row that was decoded last from the buffer of ``chunks``; return the chunk, or None for that of another pipeline.

    An attempt that takes a refresh over changes the row as well, but not its body: the chunk that it names was in the log before, and
    rows that it holds may have changed since.
    """
    width, names = len(buffer.table.columns), [column.name for column in buffer.table.columns]
    before, row = (dict(zip(names, texts[-width:], strict=False)) for texts in (buffer.before, buffer.after))
    buffer.before.clear()
    buffer.after.clear()
    body = row.get("body")
    is_new = body and body != before.get("body")
    return Chunk(transaction, json.loads(body)) if body and is_new and row.get("pipeline") == pipeline else None


def refresh_buffer(chunk: Chunk, table: TableMap, decode: Decoder) -> ChunkBuffer:
    """Return the buffer for rows of a refresh table, as rows of the table whose chunk this is. Raises LogRefused."""
    body, names = chunk.body, [column.name for column in table.columns]
    if unknown := next((name for name in body["key"] if name not in names), None):
        raise LogRefused(f"a chunk of {body['table']} is missing the column {unknown!r} of its key; refresh the table")
    columns = tuple(replace(column, nullable=column.name in body["nullable"]) for column in table.columns)
    key = tuple(names.index(name) for name in body["key"])
    return ChunkBuffer(replace(table, database=body["database"], table=body["table"], columns=columns, key=key), decode)


def sent_buffer(chunk: Chunk) -> RowBuffer:
    """Return the buffer for rows that the chunk itself holds."""
    schema = TableSchema.from_json(chunk.body["schema"])
    columns = tuple(Column(column.name, column_types.VAR_STRING, 0, column.nullable) for column in schema.columns)
    names = [column.name for column in columns]
    key = tuple(names.index(name) for name in schema.key)
    return ChunkBuffer(SentTable(schema.database, schema.table, columns, key, True, schema), _decode_nothing)


def take_sent(chunk: Chunk, buffer: RowBuffer) -> list[tuple[EventKind, int]]:
    """Append the bounds, keys and rows that a chunk holds; return kinds of events with their numbers."""
    kind_counts = _take_bounds(chunk, buffer)
    for row in chunk.body["rows"]:
        buffer.after.extend(row)
    return [*kind_counts, ("refresh", len(chunk.body["rows"]))] if chunk.body["rows"] else kind_counts


def _decode_nothing(*_: object) -> int:
    raise AssertionError("the rows of this table are no events of the log")


def take_rows(chunk: Chunk | None, buffer: ChunkBuffer, count: int, transaction: object) -> list[tuple[EventKind, int]]:
    """Replace the rows that were decoded last by what they stand for; return kinds of events with their numbers.

    The first row of a chunk stands for its bounds and for the keys that may be absent. Rows that belong to no chunk are dropped.
    """
    width = len(buffer.table.columns)
    if chunk is None or chunk.transaction is not transaction:
        del buffer.after[len(buffer.after) - count * width :]
        return []
    if chunk.is_open:
        return [("refresh", count)]
    del buffer.after[len(buffer.after) - count * width :]
    return _take_bounds(chunk, buffer)


def _take_bounds(chunk: Chunk, buffer: RowBuffer) -> list[tuple[EventKind, int]]:
    """Append the bounds of a chunk, and the keys that may be absent."""
    chunk.is_open = True
    kind_counts: list[tuple[EventKind, int]] = []
    if chunk.body["bounds"]:
        low, high = (chunk.row(buffer.table, end) for end in chunk.body["bounds"])
        buffer.before.extend(low)
        buffer.after.extend(high)
        kind_counts.append(("bounds", 1))
    for key in chunk.body["keys"]:
        buffer.before.extend(chunk.row(buffer.table, key))
    if chunk.body["keys"]:
        kind_counts.append(("absent", len(chunk.body["keys"])))
    return kind_counts
