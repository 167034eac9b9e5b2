"""Read messages as events: Debezium's envelope, the flat form, and plain objects with a key, in JSON or with schemas of a registry.

=========================================  ===========================================================================================
message                                    event
=========================================  ===========================================================================================
``c``, ``r``                               ``insert``, ``refresh``
``u``                                      ``update``; without the row before ``refresh``
``d``                                      ``delete``; without the row before, or if a refresh sent it, ``absent``
flat, ``__deleted`` true                   ``delete``; if columns that are NOT NULL are null, ``absent``
any other flat or plain object             ``refresh``: a row that exists, whatever was there before. Not ``insert``, which a filter drops
                                           where a row has left it, and of which sums of a table's rows believe that there was none
tombstone                                  ``absent``, unless it follows the delete of its key: compaction may have left it alone
=========================================  ===========================================================================================

What a row's columns are is said by the caller, or by the schema that the message has or names; the closest MySQL types are chosen then
(`column_values.of_schema`). A message that is not understood is reported with the reason, and has no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.config import MessageSettings
from auditor.errors import MessageRefused
from auditor.pipeline.events import ARROW_SCHEMA, ColumnSchema, EventKind, TableSchema
from auditor.pipeline.messages import column_values
from auditor.pipeline.messages.bulk_reading import (
    ADDED,
    DELETED,
    MOST_NESTED,
    PIECE,
    TEXTS,
    BulkReader,
    Layout,
    Rows,
    parse_lines,
    weave,
)
from auditor.pipeline.messages.connect_schemas import Schema
from auditor.pipeline.messages.formats import FORMATS, IDENTIFIER, Format, LookUp, PayloadReader

Row = Mapping[str, Any]

_MISSING = object()


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """What messages became."""

    events: list[pa.RecordBatch]
    """Events in the order of their messages: for each stretch of one schema its announcement, and its rows."""
    refused: list[tuple[int, str]]
    """The number of each message that was not understood, and why."""


@dataclass(slots=True)
class _Change:
    """A message that is understood as far as its fields: its event, and its rows as messages have them."""

    kind: EventKind
    before: Row | None
    after: Row | None
    gtid: str | None = None


@dataclass(slots=True)
class _Stretch:
    """Messages of one layout: those that were read alone, and the rows of the others."""

    layout: Layout
    numbers: list[int] = field(default_factory=list)
    changes: list[_Change] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)


@dataclass(slots=True)
class _Progress:
    """What is known of messages while they are read."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    refused: list[tuple[int, str]] = field(default_factory=list)
    stretches: list[_Stretch] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    """Tombstones before the first message that says the columns."""

    def stretch(self, layout: Layout) -> _Stretch:
        """Return the stretch to which the next message of a layout belongs."""
        if not self.stretches or self.stretches[-1].layout is not layout:
            self.stretches.append(_Stretch(layout))
        return self.stretches[-1]


@dataclass(frozen=True, slots=True)
class _Common:
    """What messages have in common that are read together."""

    layout: Layout
    key: bytes | None
    """With what keys begin; None if there are none, or if they say nothing."""
    value: bytes
    tail: int
    """Bytes behind the payload."""
    is_keyed: bool
    """Whether the key says what the table's key is, so that it has to be understood."""


class MessageReader:
    """Reads the messages of one table's topic, in order.

    With ``schema`` rows have its columns, and values are written as the settings say; without it, schemas beside messages say both. The
    events are of the table that is named.
    """

    def __init__(
        self, database: str, table: str, settings: MessageSettings, schema: TableSchema | None = None, look_up: LookUp | None = None
    ) -> None:
        self._database, self._table, self._settings = database, table, settings
        self._payloads = PayloadReader(settings, look_up)
        self._given: Layout | None = None
        if schema is not None:
            columns = [column_values.of_column(column, settings) for column in schema.columns]
            form = FORMATS[settings.format]
            names = [form.field_name(column.name) for column in schema.columns]
            self._given = Layout(TableSchema(database, table, schema.columns, schema.key), columns, names, form.is_json)
        self._layout = self._given
        self._layouts: dict[tuple[int, tuple[str, ...]], tuple[Schema, Layout]] = {}  # by identity: a schema is hashed slowly
        self._bulks: dict[int, BulkReader] = {}
        self._deleted: bytes | None = None

    def read(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], positions: np.ndarray, rows: np.ndarray, times: pa.Array
    ) -> ReadMessages:
        """Return the events of messages, each at its position and row and of its time (of Arrow's type in ARROW_SCHEMA)."""
        progress, count, number = _Progress(keys, values), len(keys), 0
        while number < count:
            common = self._common(keys[number], values[number])
            end = number + 1 if common is None else min(number + PIECE, count)
            together = None if common is None else self._read_together(common, progress, number, end)
            if common is None or together is None:
                self._read_alone(progress, range(number, end))
            else:
                self._read_mixed(common.layout, together, progress, number, end)
            number = end
        refused = progress.refused
        refused += [(number, "a tombstone, and no message before it says the columns") for number in progress.waiting]
        events = [batch for one in progress.stretches for batch in self._events(one, positions, rows, times, refused)]
        return ReadMessages(events, sorted(refused))

    def _common(self, key: bytes | None, value: bytes | None) -> _Common | None:
        """Return what a message shares with those behind it, if it is of a schema that was seen."""
        if value is None or not FORMATS[self._settings.format].is_json:
            return None
        schema: Schema | None
        key_head: bytes | None
        if self._settings.has_registry:
            try:
                _, form, _, schema = self._payloads.registered(value)
                key_schema = None if key is None or self._given else self._payloads.registered(key)[3]
            except MessageRefused:
                return None
            if not form.is_json:
                return None
            key_head, head, tail = key and key[: IDENTIFIER.size], value[: IDENTIFIER.size], 0
        else:
            of_key, of_value = self._payloads.key, self._payloads.value
            schema, key_schema, key_head, head = of_value.schema, of_key.schema, of_key.head, of_value.head or b""
            if self._given and not value.startswith(head):
                head = b""
            tail = 1 if head else 0  # the brace behind the payload
        layout = self._given
        if layout is None:
            if not head or (key is not None and (key_schema is None or key_schema.type != "struct" or not key_head)):
                return None
            names = () if key is None or key_schema is None else tuple(name for name, _ in key_schema.fields)
            _, layout = self._layouts.get((id(schema), names), (None, None))
        if layout is None or not self._bulk(layout).is_possible:
            return None
        return _Common(layout, None if key is None else key_head, head, tail, self._given is None)

    def _bulk(self, layout: Layout) -> BulkReader:
        if id(layout) not in self._bulks:
            self._bulks[id(layout)] = BulkReader(layout, self._settings.values)
        return self._bulks[id(layout)]

    def _read_together(self, common: _Common, progress: _Progress, first: int, end: int) -> Rows | None:
        """Return the rows of the messages of a piece that are read together; None if there are none."""
        head, start, stop = common.value, len(common.value), -common.tail or None
        numbers, payloads, keys = [], [], []
        for number, (key, value) in enumerate(zip(progress.keys[first:end], progress.values[first:end], strict=True), first):
            if value is None or not value.startswith(head):
                continue
            payload = value[start:stop]
            if not (payload.startswith(b"{") and value.endswith(b"}}" if common.tail else b"}")) or _is_nested(payload):
                continue
            if common.is_keyed:
                if common.key is None or key is None:
                    if key is not common.key:
                        continue
                elif not key.startswith(common.key):
                    continue
                elif common.tail:
                    keys.append(key[len(common.key) : -1])
                    if not (keys[-1].startswith(b"{") and key.endswith(b"}}")) or _is_nested(keys[-1]):
                        keys.pop()
                        continue
            numbers.append(number)
            payloads.append(payload)
        if not payloads or (keys and parse_lines(keys, pa.schema([]), "infer") is None):
            return None
        return self._bulk(common.layout).read(payloads, np.array(numbers))

    def _read_mixed(self, layout: Layout, rows: Rows, progress: _Progress, first: int, end: int) -> None:
        """Take rows that were read together, and read alone what is left of their piece, in order."""
        left = np.setdiff1d(np.arange(first, end), rows.numbers, assume_unique=True).tolist()
        for number in [*left, end]:
            if number > first:
                self._layout, self._deleted = layout, None
                stretch = progress.stretch(layout)
                stretch.rows.append(rows.of(first, number))
                self._read_waiting(progress, stretch)
            if number < end:
                self._read_alone(progress, [number])
            first = number + 1

    def _read_alone(self, progress: _Progress, numbers: Iterable[int]) -> None:
        """Read messages one by one, and note what is wrong with each."""
        for number in numbers:
            key, value = progress.keys[number], progress.values[number]
            try:
                if value is None and self._layout is None:
                    progress.waiting.append(number)
                    continue
                change = self._parse(key, value)
            except MessageRefused as error:
                progress.refused.append((number, str(error)))
                continue
            assert self._layout is not None
            stretch = progress.stretch(self._layout)
            self._read_waiting(progress, stretch)
            if change is not None:
                stretch.numbers.append(number)
                stretch.changes.append(change)

    def _read_waiting(self, progress: _Progress, stretch: _Stretch) -> None:
        for number in progress.waiting:
            try:
                change = self._gone(progress.keys[number])
            except MessageRefused as error:
                progress.refused.append((number, str(error)))
                continue
            stretch.numbers.append(number)
            stretch.changes.append(change)
        progress.waiting.clear()

    def _parse(self, key: bytes | None, value: bytes | None) -> _Change | None:
        """Return what a message says; None if nothing that is not known already. Sets the layout of its rows."""
        if value is None:
            is_known = key is not None and key == self._deleted
            self._deleted = None
            return None if is_known else self._gone(key)
        payload, schema, form = self._payloads.read_value(value)
        if not isinstance(payload, dict):
            raise MessageRefused(f"the value is {_kind(payload)} where an object is expected")
        self._layout = self._given or self._layout_of(schema, key, form)
        change = self._envelope(payload, key) if self._settings.values == "debezium" else self._object(payload, key)
        self._deleted = key if change.kind in ("delete", "absent") else None
        return change

    def _envelope(self, payload: Row, key: bytes | None) -> _Change:
        op, before, after, source = (payload.get(name) for name in ("op", "before", "after", "source"))
        if not isinstance(op, str) or "after" not in payload:
            raise MessageRefused("the value has no op, before and after, so it is no envelope of Debezium's; see values:")
        if any(not isinstance(one, dict | None) for one in (before, after, source)):
            raise MessageRefused("before, after and source are objects or null in Debezium's envelope")
        gtid = _gtid_of((source or {}).get("gtid"))
        if op in ("c", "r", "u"):
            if after is None:
                raise MessageRefused(f"the change {op!r} has no row after it")
            kind: EventKind = "insert" if op == "c" else "update" if op == "u" and before is not None else "refresh"
            return _Change(kind, before if kind == "update" else None, after, gtid)
        if op == "d":
            if before is None or (source or {}).get("snapshot") == "incremental":
                return self._gone(key, gtid)
            return _Change("delete", before, None, gtid)
        raise MessageRefused(f"the change {op!r} is of no row" + ("; the table was emptied by TRUNCATE" if op == "t" else ""))

    def _object(self, payload: Row, key: bytes | None) -> _Change:
        if self._settings.values == "plain":
            return _Change("refresh", None, payload)
        deleted = payload.get(DELETED)
        if deleted not in ("true", "false", True, False, None):
            raise MessageRefused(f"{DELETED} is neither true nor false")
        row = {name: value for name, value in payload.items() if name not in ADDED}
        gtid = _gtid_of(payload.get("__gtid", payload.get("__source_gtid")))
        if deleted in ("true", True) or payload.get("__op") == "d":
            return self._gone(key, gtid) if self._is_key_alone(row) else _Change("delete", row, None, gtid)
        return _Change("refresh", None, row, gtid)

    def _is_key_alone(self, row: Row) -> bool:
        """Return whether a row that is gone lacks values that it must have had."""
        assert self._layout is not None
        pairs = zip(self._layout.schema.columns, self._layout.fields, strict=True)
        return any(not column.nullable and row.get(name) is None for column, name in pairs)

    def _gone(self, key: bytes | None, gtid: str | None = None) -> _Change:
        """Return that no row has a key."""
        if key is None:
            raise MessageRefused("a delete without a key and without the row before it")
        payload, _ = self._payloads.read_key(key)
        assert self._layout is not None
        names = [self._layout.fields[index] for index in self._layout.key]
        if not isinstance(payload, dict):
            if len(names) != 1:
                raise MessageRefused(f"the key is {_kind(payload)}, and the table's key has {len(names)} columns")
            payload = {names[0]: payload}
        if not names:
            raise MessageRefused("the table has no key")
        if missing := [name for name in names if payload.get(name) is None]:
            raise MessageRefused(f"the key has no {missing[0]!r}")
        return _Change("absent", {name: payload[name] for name in names}, None, gtid)

    def _layout_of(self, schema: Schema | None, key: bytes | None, form: Format) -> Layout:
        """Return the columns that a schema and the key beside it say."""
        if schema is None:
            raise MessageRefused("it has no schema, and no columns were given")
        key_names = self._key_names(key)
        cached = (id(schema), key_names)
        if cached not in self._layouts:
            self._layouts[cached] = schema, self._make_layout(schema, key_names, form)
        return self._layouts[cached][1]

    def _make_layout(self, schema: Schema, key_names: tuple[str, ...], form: Format) -> Layout:
        row = schema.field("after") if self._settings.values == "debezium" else schema
        if row is None:
            raise MessageRefused("the schema has no row after, so it is no envelope of Debezium's; see values:")
        fields = [(name, one) for name, one in row.fields if self._settings.values != "flat" or name not in ADDED]
        if row.type != "struct" or not fields:
            raise MessageRefused("the schema has no columns")
        if lost := [name for name in key_names if name not in dict(fields)]:
            raise MessageRefused(f"the key's field {lost[0]!r} is none of the row's")
        columns = [column_values.of_schema(name, one, self._settings) for name, one in fields]
        types = tuple(
            ColumnSchema(name, column.type, one.optional and name not in key_names, _charset(column.type))
            for (name, one), column in zip(fields, columns, strict=True)
        )
        return Layout(TableSchema(self._database, self._table, types, key_names), columns, [name for name, _ in fields], form.is_json)

    def _key_names(self, key: bytes | None) -> tuple[str, ...]:
        if key is None:
            return ()
        payload, schema = (None, self._payloads.registered(key)[3]) if self._settings.has_registry else self._payloads.read_key(key)
        if schema is not None and schema.type == "struct":
            return tuple(name for name, _ in schema.fields)
        if isinstance(payload, dict):
            return tuple(payload)
        what = _kind(payload) if schema is None else f"a value of the type {schema.type}"
        raise MessageRefused(f"the key is {what} where an object is expected, so that its column is not known")

    def _events(
        self, stretch: _Stretch, positions: np.ndarray, rows: np.ndarray, times: pa.Array, refused: list[tuple[int, str]]
    ) -> list[pa.RecordBatch]:
        """Return the announcement and the events of a stretch."""
        alone = self._rows_alone(stretch, refused)
        parts = stretch.rows if alone is None else [*stretch.rows, alone]
        if not parts:
            return []
        numbers, schema = np.concatenate([one.numbers for one in parts]), stretch.layout.schema
        order = None if (np.diff(numbers) > 0).all() else np.argsort(numbers)
        numbers = numbers if order is None else numbers[order]

        def joined(name: str) -> pa.Array:
            whole = pa.concat_arrays([getattr(one, name) for one in parts])
            return whole if order is None else whole.take(pa.array(order))

        columns = [
            joined("kinds"),
            *(pa.repeat(pa.scalar(text, pa.string()), len(numbers)) for text in (schema.database, schema.table, schema.id)),
            joined("gtids"),
            pa.array(positions[numbers], pa.int64()),
            pa.array(rows[numbers], pa.int64()),
            times.take(pa.array(numbers)),
            joined("before"),
            joined("after"),
        ]
        events = pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
        return [_announce(schema, events), events]

    def _rows_alone(self, stretch: _Stretch, refused: list[tuple[int, str]]) -> Rows | None:
        """Return the rows of messages that were read alone; None if there are none, or none that is understood."""
        layout = stretch.layout
        if not stretch.changes:
            return None
        try:
            images, places = _images(layout, stretch.changes)
        except ValueError:  # a value of some row is not understood: find which
            kept = []
            for number, change in zip(stretch.numbers, stretch.changes, strict=True):
                try:
                    _images(layout, [change])
                except ValueError as error:
                    refused.append((number, str(error)))
                else:
                    kept.append((number, change))
            if not kept:
                return None
            stretch.numbers, stretch.changes = [number for number, _ in kept], [change for _, change in kept]
            images, places = _images(layout, stretch.changes)
        kinds, gtids = ([getattr(change, name) for change in stretch.changes] for name in ("kind", "gtid"))
        sides = (images.take(pa.array(place, mask=place < 0)) for place in places)
        return Rows(np.array(stretch.numbers), pa.array(kinds, pa.string()), pa.array(gtids, pa.string()), *sides)


def _charset(type: str) -> str | None:
    return "utf8mb4" if type.startswith(("char", "longtext", "enum", "set")) else None


def _announce(schema: TableSchema, events: pa.RecordBatch) -> pa.RecordBatch:
    """Return the event that announces the schema of events."""
    first = events.slice(0, 1)
    changed = {
        "kind": pa.array(["schema"], pa.string()),
        "row": pa.array([-1 - first["row"][0].as_py()], pa.int64()),
        "before": pa.nulls(1, TEXTS),
        "after": pa.array([[schema.to_json()]], TEXTS),
    }
    return pa.RecordBatch.from_arrays([changed.get(one.name, first[one.name]) for one in ARROW_SCHEMA], schema=ARROW_SCHEMA)


def _images(layout: Layout, changes: list[_Change]) -> tuple[pa.ListArray, tuple[np.ndarray, np.ndarray]]:
    """Return all rows of changes as texts, and which of them is before and after each change; -1 for none.

    Raises ValueError, which names the column, for a value that is not understood.
    """
    rows: list[Row] = []
    places = np.full((2, len(changes)), -1)
    alone: list[int] = []
    for number, change in enumerate(changes):
        for side, row in enumerate((change.before, change.after)):
            if row is not None:
                places[side, number] = len(rows)
                if change.kind == "absent":
                    alone.append(len(rows))
                rows.append(row)
    key = layout.key
    known = {*layout.fields}
    if stranger := next((row for row in rows if not row.keys() <= known), None):
        raise ValueError(f"the field {min(stranger.keys() - known)!r} is none of the table's columns")
    whole = np.ones(len(rows), bool)
    whole[alone] = False
    columns = []
    for index, (column, name) in enumerate(zip(layout.columns, layout.fields, strict=True)):
        values = [row.get(name, _MISSING) for row in rows]
        is_required = not layout.schema.columns[index].nullable
        if _MISSING in values:
            if is_required and any(value is _MISSING and is_whole for value, is_whole in zip(values, whole, strict=True)):
                raise ValueError(f"there is no field for the column {name!r}")
            values = [None if value is _MISSING else value for value in values]
        try:
            texts = column.read_json(values) if layout.is_json else column.read_avro(values)
        except (ValueError, pa.ArrowException) as error:
            raise ValueError(f"column {name!r}, {column.type}: {str(error)[:200]}") from None
        if texts.null_count and is_required and (texts.is_null().to_numpy(zero_copy_only=False) & (whole | (index in key))).any():
            raise ValueError(f"column {name!r} is null, which its type does not allow")
        columns.append(texts)
    return weave(columns), (places[0], places[1])


def _is_nested(payload: bytes) -> bool:
    return len(payload) > MOST_NESTED and payload.count(b"{") + payload.count(b"[") > MOST_NESTED


def _gtid_of(found: Any) -> str | None:
    if found is None:
        return None
    try:
        return str(found.encode(), "utf-8")
    except (AttributeError, UnicodeEncodeError):
        raise MessageRefused("the gtid is no text") from None


def _kind(payload: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "an array", bytes: "bytes"}
    return names.get(type(payload), type(payload).__name__)
