"""Write events of one table as messages: Debezium's envelope, the flat form of ExtractNewRecordState, or the row alone.

===========  =========================================================================================================================
event        messages
===========  =========================================================================================================================
``insert``   ``c`` with the row after
``update``   ``u`` with both rows; if the key changes, ``d`` of the row before, a tombstone, and ``c`` of the row after
``delete``   ``d`` with the row before, and a tombstone
``refresh``  ``r`` with the row after
``absent``   ``d`` with the key alone in ``before``, and a tombstone; where a schema forbids that, because other columns are NOT NULL,
             ``before`` is null, and the flat form has the tombstone alone, without which it is refused
``bounds``   none: what is not in an interval is known by the events of its rows alone
===========  =========================================================================================================================

The ``d`` of a changed key and its tombstone have the header ``__debezium.newkey`` with the new key, the ``c`` after them
``__debezium.oldkey`` with the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import ENVELOPE_FIELDS, MessageSettings
from auditor.errors import ColumnRefused, ValueRefused
from auditor.pipeline.events import TableSchema
from auditor.pipeline.messages import column_values
from auditor.pipeline.messages.connect_schemas import Schema, struct
from auditor.pipeline.messages.formats import FORMATS, PayloadWriter, Register
from auditor.pipeline.messages.source_block import Names, SourceBlocks, file_number, join_object

MESSAGES = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("event", pa.int64(), nullable=False),
        pa.field("new_key", pa.binary()),
        pa.field("old_key", pa.binary()),
    ]
)
"""A message: its key (NULL of a table without one), its value (NULL for a tombstone), the number of its event in the batch, and the values
of its headers ``NEW_KEY`` and ``OLD_KEY``, NULL where it has none."""

NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"

KINDS = ("insert", "update", "delete", "refresh", "absent", "bounds")
"""Kinds of events that are written."""

_INSERT, _UPDATE, _DELETE, _REFRESH, _ABSENT, _ = range(len(KINDS))

DELETED = "__deleted"

Side = Literal["before", "after"]

Part = tuple[np.ndarray, int, pa.Array]
"""Messages of one step: the numbers of their events, the step, and their values."""


_GOES, _TOMBSTONE, _COMES = range(3)
"""Steps of an event: the message by which its row goes, the tombstone after it, and the message by which a row comes."""

_HEADERS: tuple[tuple[tuple[int, ...], Side], ...] = (((_GOES, _TOMBSTONE), "after"), ((_COMES,), "before"))
"""For the headers NEW_KEY and OLD_KEY: the steps that have it, and the side of the update whose key it is."""


def transaction_schema() -> Schema:
    """Return the schema of a change's block ``transaction``."""
    numbers = {name: Schema("int64") for name in ("total_order", "data_collection_order")}
    return struct("event.block", {"id": Schema("string"), **numbers}, optional=True, version=1)


def nullable_additions(schema: TableSchema, known: Sequence[str]) -> TableSchema:
    """Return a schema in which columns that are not among the ``known`` ones are nullable.

    The log does not tell the default of a column, so that a schema with a new column that is NOT NULL would not be compatible with the
    messages before it. Of the first schema of a topic all columns are known.
    """
    columns = (column if column.name in known else replace(column, nullable=True) for column in schema.columns)
    return replace(schema, columns=tuple(columns))


class Encoder:
    """Writes the events of one table under one schema.

    ``register`` is called twice, for the schemas of the key and the value, if the format has a registry. Raises ColumnRefused for a column
    of a type or with a name that no message holds.
    """

    def __init__(self, schema: TableSchema, settings: MessageSettings, names: Names, register: Register | None = None) -> None:
        self.schema, self._settings, self._names = schema, settings, names
        self._columns = [column_values.of_column(column, settings) for column in schema.columns]
        self._key = [next(index for index, column in enumerate(schema.columns) if column.name == name) for name in schema.key]
        self._fields = [FORMATS[settings.format].field_name(column.name) for column in schema.columns]
        reserved = {DELETED, *(_added_name(name) for name in settings.add)} if settings.values == "flat" else set()
        if taken := next((column.name for column in schema.columns if column.name in reserved), None):
            raise ColumnRefused(f"{schema.database}.{schema.table} has a column {taken!r}, which the flat form adds; rename or exclude it")
        self._key_writer = PayloadWriter(self._key_schema(), settings, "key", register) if self._key else None
        self._writer = PayloadWriter(self._value_schema(), settings, "value", register)
        has_schema = settings.schemas or settings.has_registry
        required = any(not column.nullable for index, column in enumerate(schema.columns) if index not in self._key)
        self._absent_has_row = not (has_schema and required)

    def _key_schema(self) -> Schema:
        fields = {self.schema.columns[index].name: column_values.without_source_type(self._columns[index].schema) for index in self._key}
        return struct(self._names.of_table(self.schema, "Key"), fields)

    def _value_schema(self) -> Schema:
        columns = {column.name: values.schema for column, values in zip(self.schema.columns, self._columns, strict=True)}
        row = struct(self._names.of_table(self.schema, "Value"), columns, optional=self._settings.values == "debezium")
        if self._settings.values == "plain":
            return row
        stamps = {name: Schema("int64", optional=True) for name in ENVELOPE_FIELDS[1:]}
        source = self._names.schema
        if self._settings.values == "debezium":
            blocks = {"before": row, "after": row, "source": source, "transaction": transaction_schema()}
            return struct(self._names.of_table(self.schema, "Envelope"), {**blocks, "op": Schema("string"), **stamps}, version=2)
        known = {**dict(source.fields), **stamps, "op": Schema("string")}
        known |= {f"source.{name}": one for name, one in source.fields}
        added = {_added_name(name): replace(known[name], optional=True, default=None) for name in self._settings.add}
        return struct(row.name, {**columns, DELETED: Schema("string", optional=True), **added})

    def encode(self, events: pa.RecordBatch, now_ns: int, orders: pa.Array | None = None) -> pa.RecordBatch:
        """Return the messages of events, in their order, as MESSAGES has them.

        ``now_ns`` is when they are written, in nanoseconds since 1970 (``ts_ms``). With ``orders``, the number of each event among those of
        its transaction and table, counted from 1, each message has the block ``transaction``. Raises ValueRefused, which names the column,
        for a value that a message cannot hold; ValueError for an event that is none of a row.
        """
        kinds = pc.index_in(events["kind"], pa.array(KINDS)).fill_null(-1).to_numpy()
        if (kinds < 0).any():
            raise ValueError(f"events of kind {events['kind'][int(np.argmin(kinds))]} are not written as messages")
        images = _Images(events, len(self._columns))
        moved = self._find_moved(images, kinds == _UPDATE)
        goes = np.flatnonzero((kinds == _DELETE) | (kinds == _ABSENT) | moved)
        comes = np.flatnonzero((kinds == _INSERT) | (kinds == _UPDATE) | (kinds == _REFRESH))
        rows = _Rows(self, images, events, now_ns, orders)
        ops = np.where(kinds == _REFRESH, "r", np.where((kinds == _UPDATE) & ~moved, "u", "c"))
        written = self._written(goes, kinds)
        parts = [(written, _GOES, rows.values(written, "before", pa.array(["d"] * len(written), pa.string()), moved))]
        if self._settings.tombstones and self._key:
            parts.append((goes, _TOMBSTONE, pa.nulls(len(goes), pa.binary())))
        parts.append((comes, _COMES, rows.values(comes, "after", pa.array(ops[comes].tolist(), pa.string()), moved)))
        numbers = np.concatenate([chosen for chosen, _, _ in parts])
        steps = np.concatenate([np.full(len(chosen), step) for chosen, step, _ in parts])
        order = np.lexsort((steps, numbers))
        return self._assemble(rows, parts, numbers, order, moved)

    def _written(self, goes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Return those of the events by which a row goes that have a message beside their tombstone."""
        if self._settings.values == "plain":
            return goes[:0]
        if self._settings.values == "flat" and not self._absent_has_row:
            if not (self._settings.tombstones and self._key) and (kinds == _ABSENT).any():
                table = f"{self.schema.database}.{self.schema.table}"
                raise ValueRefused(f"{table}: that no row has a key cannot be written without tombstones; write tombstones: true")
            goes = goes[kinds[goes] != _ABSENT]
        return goes

    def _find_moved(self, images: _Images, updates: np.ndarray) -> np.ndarray:
        """Return which events are updates that change the key."""
        moved: np.ndarray = np.zeros(len(updates), bool)
        for index in self._key if updates.any() else ():
            differs = pc.not_equal(images.column("before", index), images.column("after", index)).fill_null(False)
            moved |= differs.to_numpy(zero_copy_only=False)
        moved &= updates
        return moved

    def _assemble(self, rows: _Rows, parts: list[Part], numbers: np.ndarray, order: np.ndarray, moved: np.ndarray) -> pa.RecordBatch:
        take = pa.array(order)
        values = pa.concat_arrays([values for _, _, values in parts]).take(take)
        nothing = pa.nulls(len(order), pa.binary())
        if not self._key:
            return pa.RecordBatch.from_arrays([nothing, values, pa.array(numbers[order]), nothing, nothing], schema=MESSAGES)
        sides: list[Side] = ["after" if step == _COMES else "before" for _, step, _ in parts]
        keys = pa.concat_arrays([rows.keys(chosen, side) for (chosen, _, _), side in zip(parts, sides, strict=True)]).take(take)
        new_keys, old_keys = nothing, nothing
        if moved.any():
            new_keys, old_keys = (self._moved_keys(rows, parts, moved, at, side).take(take) for at, side in _HEADERS)
        return pa.RecordBatch.from_arrays([keys, values, pa.array(numbers[order]), new_keys, old_keys], schema=MESSAGES)

    def _moved_keys(self, rows: _Rows, parts: list[Part], moved: np.ndarray, at: tuple[int, ...], side: Side) -> pa.Array:
        """Return the keys of one side of updates that change them, for their messages of the steps ``at``; NULL for all other messages."""
        chosen = [np.where(moved[numbers] & (step in at), numbers, -1) for numbers, step, _ in parts]
        return pa.concat_arrays([rows.keys(some, side) for some in chosen])

    def truncate(self, gtid: str | None, position: int, micros: int, now_ns: int) -> bytes | None:
        """Return the value of the message ``t``, which has no key, at a position and time of the log; None in a form that has no ``op``."""
        if self._settings.values != "debezium":
            return None
        source = self._names.block(self.schema.database, self.schema.table, gtid, position, micros)
        payload = {"before": None, "after": None, "source": source, "transaction": None, "op": "t"}
        return self._writer.write(payload | _stamps(now_ns))


def _added_name(name: str) -> str:
    return f"__{name.replace('.', '_')}"


def _stamps(now_ns: int) -> dict[str, int]:
    return {"ts_ms": now_ns // 1_000_000, "ts_us": now_ns // 1000, "ts_ns": now_ns}


class _Images:
    """The rows before and after a batch of events, as one array of values: those before, then those after."""

    def __init__(self, events: pa.RecordBatch, width: int) -> None:
        flat = [events[name].flatten() for name in ("before", "after")]
        present = [events[name].is_valid().to_numpy(zero_copy_only=False) for name in ("before", "after")]
        self.count = int(present[0].sum() + present[1].sum())
        self._values, self._width = pa.concat_arrays(flat), width
        if len(self._values) != self.count * width:
            raise ValueError(f"rows do not have the {width} columns of their schema")
        places = [np.where(one, np.cumsum(one) - 1, -1) for one in present]
        self.places: dict[Side, np.ndarray] = {
            "before": places[0],
            "after": np.where(places[1] >= 0, places[1] + present[0].sum(), -1),
        }

    def texts(self, index: int) -> pa.Array:
        """Return the texts of a column in all rows."""
        return self._values.take(pa.array(np.arange(index, self.count * self._width, self._width)))

    def column(self, side: Side, index: int) -> pa.Array:
        """Return the texts of a column before or after each event."""
        return self.texts(index).take(_nullable(self.places[side]))


def _nullable(places: np.ndarray) -> pa.Array:
    return pa.array(places, mask=places < 0)


class _Rows:
    """The rows of a batch in the form of the settings: as JSON, or as Python's values, as Avro has them."""

    def __init__(self, encoder: Encoder, images: _Images, events: pa.RecordBatch, now_ns: int, orders: pa.Array | None) -> None:
        self._encoder, self._images, self._events, self._now, self._orders = encoder, images, events, now_ns, orders
        self._is_json = encoder._writer.format.is_json
        columns, fields, key = encoder._columns, encoder._fields, encoder._key
        texts = [images.texts(index) for index in range(len(columns))]
        if self._is_json:
            printed = [pc.fill_null(column.json(text), "null") for column, text in zip(columns, texts, strict=True)]
            self._columns = dict(zip(fields, printed, strict=True))
            self._rows: Any = None if encoder._settings.values == "flat" else join_object(self._columns, images.count)
            keys: Any = join_object({fields[index]: printed[index] for index in key}, images.count)
        else:
            values = [column.avro(text) for column, text in zip(columns, texts, strict=True)]
            self._rows = [dict(zip(fields, row, strict=True)) for row in zip(*values, strict=True)]
            keys = [{fields[index]: row[fields[index]] for index in key} for row in self._rows]
        self._keys = None
        if encoder._key_writer is not None:
            write = encoder._key_writer.write_texts if self._is_json else encoder._key_writer.write_values
            self._keys = write(keys)

    def keys(self, chosen: np.ndarray, side: Side) -> pa.Array:
        """Return the keys of rows before or after events; NULL for -1."""
        places = np.where(chosen < 0, -1, self._images.places[side][chosen])
        assert self._keys is not None
        return self._keys.take(_nullable(places))

    def values(self, chosen: np.ndarray, side: Side, ops: pa.Array, moved: np.ndarray) -> pa.Array:
        """Return the values of messages by which rows go (``before``) or come (``after``)."""
        if not len(chosen):
            return pa.nulls(0, pa.binary())
        places = dict.fromkeys(("before", "after"), np.full(len(chosen), -1))
        places[side] = self._images.places[side][chosen]
        if side == "after":
            places["before"] = np.where(moved[chosen], -1, self._images.places["before"][chosen])
        elif not self._encoder._absent_has_row:
            is_absent = pc.equal(self._events["kind"].take(pa.array(chosen)), "absent").to_numpy(zero_copy_only=False)
            places["before"] = np.where(is_absent, -1, places["before"])
        write = self._json_values if self._is_json else self._python_values
        return write(chosen, side, places, ops)

    def _json_values(self, chosen: np.ndarray, side: Side, places: dict[str, np.ndarray], ops: pa.Array) -> pa.Array:
        writer, settings = self._encoder._writer, self._encoder._settings
        if settings.values == "plain":
            return writer.write_texts(self._rows.take(pa.array(places[side])))
        events = self._events.take(pa.array(chosen))
        source = SourceBlocks(self._encoder._names, self._encoder.schema, events)
        stamps = {name: pa.scalar(str(stamp)) for name, stamp in _stamps(self._now).items()}
        op = pc.binary_join_element_wise(pa.scalar('"'), ops, pa.scalar('"'), "")
        if settings.values == "flat":
            row = {name: printed.take(pa.array(places[side])) for name, printed in self._columns.items()}
            known = {**source.fields, **stamps, "op": op, **{f"source.{name}": one for name, one in source.fields.items()}}
            added = {_added_name(name): known[name] for name in settings.add}
            row[DELETED] = pa.scalar(f'"{"true" if side == "before" else "false"}"')
            return writer.write_texts(join_object(row | added, len(chosen)))
        sides = {name: pc.fill_null(self._rows.take(_nullable(places[name])), "null") for name in ("before", "after")}
        blocks = {"source": source.json(len(chosen)), "transaction": self._transactions(chosen, events), "op": op}
        return writer.write_texts(join_object({**sides, **blocks, **stamps}, len(chosen)))

    def _transactions(self, chosen: np.ndarray, events: pa.RecordBatch) -> pa.Array | pa.Scalar:
        if self._orders is None:
            return pa.scalar("null")
        numbers = {
            "total_order": pc.add(events["row"], 1).cast(pa.string()),
            "data_collection_order": self._orders.take(pa.array(chosen)).cast(pa.string()),
        }
        names = pa.array([f'"{one}"' for one in transaction_ids(events, self._encoder._names)], pa.string())
        return join_object({"id": names, **numbers}, len(chosen))

    def _python_values(self, chosen: np.ndarray, side: Side, places: dict[str, np.ndarray], ops: pa.Array) -> pa.Array:
        writer, settings, names = self._encoder._writer, self._encoder._settings, self._encoder._names
        rows = {name: [None if place < 0 else self._rows[place] for place in places[name].tolist()] for name in ("before", "after")}
        if settings.values == "plain":
            return writer.write_values(rows[side])
        events = self._events.take(pa.array(chosen))
        gtids, positions, numbers = (events[name].to_pylist() for name in ("gtid", "position", "row"))
        micros = events["time"].cast(pa.int64()).to_pylist()
        snapshots = ["incremental" if kind in ("refresh", "absent") else "false" for kind in events["kind"].to_pylist()]
        orders = None if self._orders is None else self._orders.take(pa.array(chosen)).to_pylist()
        ids = transaction_ids(events, names) if orders else []
        stamps, payloads = _stamps(self._now), []
        for at, op in enumerate(ops.to_pylist()):
            block = names.block(self._encoder.schema.database, self._encoder.schema.table, gtids[at], positions[at], micros[at])
            block |= {"snapshot": snapshots[at], "row": numbers[at]}
            if settings.values == "flat":
                known = {**block, **stamps, "op": op, **{f"source.{name}": one for name, one in block.items()}}
                added = {writer.format.field_name(_added_name(name)): known[name] for name in settings.add}
                payloads.append({**(rows[side][at] or {}), DELETED: "true" if side == "before" else "false", **added})
                continue
            number = {"total_order": numbers[at] + 1, "data_collection_order": orders[at]} if orders else {}
            transaction = {"id": ids[at], **number} if orders else None
            sides = {"before": rows["before"][at], "after": rows["after"][at]}
            payloads.append({**sides, "source": block, "transaction": transaction, "op": op, **stamps})
        return writer.write_values(payloads)


def transaction_ids(events: pa.RecordBatch, names: Names) -> list[str]:
    """Return the identifier of each event's transaction: its GTID, or its place in the log."""
    places = (
        f"file={names.log_name}.{file_number(position):06d},pos={position & 0xFFFFFFFF}" for position in events["position"].to_pylist()
    )
    return [gtid or place for gtid, place in zip(events["gtid"].to_pylist(), places, strict=True)]


def number_in_transactions(events: pa.RecordBatch) -> pa.Array:
    """Return the number of each event among those of its transaction, from 1; of events of one table that begin with a transaction."""
    positions = events["position"].to_numpy()
    starts = np.flatnonzero(np.r_[True, positions[1:] != positions[:-1]]) if len(positions) else np.zeros(0, np.int64)
    firsts = np.repeat(starts, np.diff(np.r_[starts, len(positions)]))
    return pa.array(np.arange(len(positions)) - firsts + 1)
