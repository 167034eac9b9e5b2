"""Read many JSON messages at once: rows of equal columns, parsed by Arrow and turned into texts by whole columns.

Only what is understood beyond doubt is read so: rows that exist, whose messages are one line each. Every other message (a delete, a
tombstone, a stranger among its fields, a number that a double does not hold) is left to `reading.MessageReader`, which reads it alone and
says what is wrong with it. Arrow's parser refuses what JSON forbids, repeated names, and values of another type than the column's; then
all messages of the piece are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from auditor.config import ENVELOPE_FIELDS, SOURCE_FIELDS
from auditor.pipeline.events import ARROW_SCHEMA, TableSchema
from auditor.pipeline.messages.column_values import ColumnValues

PIECE = 2_500
"""Messages that are parsed together: where one of them is no JSON, so many are read one by one."""

MOST_NESTED = 400
"""Brackets of a message from which on it is read alone: Arrow descends into what is nested, and Python stops at a depth of 1000."""

EXACT = {"double": 2**53, "float": 2**24}
"""Numbers from which on not every integer is one of the type: JSON that has such an integer is refused, and a double does not show it."""

TEXTS = ARROW_SCHEMA.field("before").type
"""A row of an event."""

DELETED = "__deleted"
ADDED = frozenset({DELETED, *(f"__{name}" for name in (*ENVELOPE_FIELDS, *SOURCE_FIELDS)), *(f"__source_{name}" for name in SOURCE_FIELDS)})
"""Fields of the flat form that are no columns."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a stretch of messages."""

    schema: TableSchema
    columns: list[ColumnValues]
    fields: list[str]
    """The columns' names in messages, which a format may limit."""
    is_json: bool
    """Whether messages are JSON; otherwise values are as Avro has them."""

    @property
    def key(self) -> list[int]:
        """The places of the key's columns."""
        return [index for index, column in enumerate(self.schema.columns) if column.name in self.schema.key]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of messages that were read together, with all that an event has of its message."""

    numbers: np.ndarray
    """Which messages these are."""
    kinds: pa.Array
    gtids: pa.Array
    before: pa.ListArray
    after: pa.ListArray

    def of(self, first: int, end: int) -> Rows:
        """Return those of messages from a number up to before another."""
        low, high = np.searchsorted(self.numbers, (first, end)).tolist()
        parts = (one.slice(low, high - low) for one in (self.kinds, self.gtids, self.before, self.after))
        return Rows(self.numbers[low:high], *parts)


def weave(columns: Sequence[pa.Array]) -> pa.ListArray:
    """Return columns of texts as rows."""
    count, width = len(columns[0]), len(columns)
    order = np.arange(width * count).reshape(width, count).T.ravel()
    woven = pa.concat_arrays(list(columns)).take(pa.array(order))
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width, pa.int32())
    return pa.ListArray.from_arrays(offsets, woven, type=TEXTS)


class BulkReader:
    """Reads pieces of messages whose rows have the columns of a layout, in the form of ``values`` of the settings."""

    def __init__(self, layout: Layout, values: str) -> None:
        self._layout, self._values = layout, values
        types, names = [column.json_type for column in layout.columns], {*layout.fields}
        means_more = {"schema", "payload"} <= names or (values == "flat" and not names.isdisjoint(ADDED))
        self.is_possible = None not in types and layout.is_json and not means_more
        """Whether rows of this layout can be read together: no type is nested, and no name of a column means something else, too."""
        row = [pa.field(name, type or pa.null()) for name, type in zip(layout.fields, types, strict=True)]
        change = [
            ("op", pa.string()),
            ("before", pa.struct(row)),
            ("after", pa.struct(row)),
            ("source", pa.struct([("gtid", pa.string())])),
        ]
        self._schema = pa.schema(change if values == "debezium" else row)

    def read(self, payloads: Sequence[bytes], numbers: np.ndarray) -> Rows | None:
        """Return the rows of messages with these numbers, without those that are to be read alone; None if all are."""
        batch = parse_lines(payloads, self._schema, "error" if self._values == "plain" else "infer")
        if batch is None:
            return None
        try:
            return self._changes(batch, numbers) if self._values == "debezium" else self._objects(batch, numbers)
        except (ValueError, pa.ArrowException):
            return None  # of some value; which one it is, is found when each is read alone

    def _changes(self, batch: pa.RecordBatch, numbers: np.ndarray) -> Rows | None:
        """Return the rows of Debezium's envelopes that insert, update or read one."""
        op, before, after, source = (batch[name] for name in ("op", "before", "after", "source"))
        if not before.type.num_fields == after.type.num_fields == len(self._layout.fields):
            return None  # a stranger among the columns
        is_update = _where(pc.equal(op, "u")) & _where(before.is_valid())
        taken = _where(pc.is_in(op, pa.array(["c", "r", "u"]))) & _where(after.is_valid())
        kinds = pc.if_else(pc.equal(op, "c"), "insert", pc.if_else(pa.array(is_update), "update", "refresh"))
        gtids = source.flatten()[source.type.get_field_index("gtid")]
        return self._rows(numbers, taken, kinds, gtids, after.flatten(), before.flatten(), is_update)

    def _objects(self, batch: pa.RecordBatch, numbers: np.ndarray) -> Rows | None:
        """Return the rows of plain and flat objects that exist."""
        count, more = batch.num_rows, {*batch.schema.names} - {*self._layout.fields}
        if more - ADDED or {"__gtid", "__source_gtid"} <= more:
            return None
        taken, gtids = np.ones(count, bool), pa.nulls(count, pa.string())
        for name in more & {DELETED, "__op", "__gtid", "__source_gtid"}:
            found = batch[name]
            if pa.types.is_null(found.type):
                continue
            if name == DELETED and pa.types.is_boolean(found.type):
                taken &= ~_where(found)
            elif not pa.types.is_string(found.type):
                return None
            elif name == DELETED:
                taken &= _where(pc.equal(found, "false").fill_null(True))
            elif name == "__op":
                taken &= ~_where(pc.equal(found, "d"))
            else:
                gtids = found
        kinds = pa.array(["refresh"] * count, pa.string())
        return self._rows(numbers, taken, kinds, gtids, [batch[name] for name in self._layout.fields], [], np.zeros(count, bool))

    def _rows(
        self, numbers: np.ndarray, taken: np.ndarray, kinds: pa.Array, gtids: pa.Array, after: list[pa.Array], before: list[pa.Array],
        is_update: np.ndarray,
    ) -> Rows | None:  # fmt: skip
        """Return the rows of the messages that are taken, without those with a number that may not be what JSON said.

        Raises ValueError for a value that its column does not hold.
        """
        taken = taken & ~self._doubtful(after, taken) & ~self._doubtful(before, is_update)
        count, updates = int(taken.sum()), taken & is_update
        if not count:
            return None
        chosen, texts = [pa.array(np.flatnonzero(one)) for one in (taken, updates)], []
        for place, (column, of_table) in enumerate(zip(self._layout.columns, self._layout.schema.columns, strict=True)):
            values = after[place] if count == len(taken) else after[place].take(chosen[0])
            if len(chosen[1]):
                values = pa.concat_arrays([values, before[place].take(chosen[1])])
            texts.append(column.read_parsed(values))
            if texts[-1].null_count and not of_table.nullable:
                raise ValueError(f"column {of_table.name!r} is null")
        images = weave(texts)
        earlier: pa.ListArray = pa.nulls(count, TEXTS)
        if len(chosen[1]):
            places = count + np.cumsum(updates[taken]) - 1
            earlier = images.take(pa.array(places, mask=~updates[taken]))
        return Rows(numbers[taken], kinds.take(chosen[0]), gtids.take(chosen[0]), earlier, images.slice(0, count))

    def _doubtful(self, columns: list[pa.Array], present: np.ndarray) -> np.ndarray:
        """Return where a double may be another number than JSON has: a large integer, or -0, which is the integer 0 without a point."""
        found = np.zeros(len(present), bool)
        if present.any():
            for column, values in zip(self._layout.columns, columns, strict=True):
                if pa.types.is_floating(values.type):
                    numbers = values.fill_null(1.0).to_numpy(zero_copy_only=False)
                    found |= (np.abs(numbers) >= EXACT[column.schema.type]) | ((numbers == 0) & np.signbit(numbers))
        return found


def parse_lines(payloads: Sequence[bytes], schema: pa.Schema, unexpected: str) -> pa.RecordBatch | None:
    """Return JSON objects, each of which begins and ends with a brace, as one row each; None if some are none.

    What is named in the schema has its types, and what is not is of ``unexpected`` as Arrow says. An object cannot end in the next line:
    none of JSON's texts goes over a line, and no brace follows another without a comma.
    """
    blob = b"\n".join(payloads)
    if blob.count(b"\n") != len(payloads) - 1 or b"\0" in blob:
        return None
    try:
        blob.decode()  # Arrow does not look
        table = pyarrow.json.read_json(
            pa.BufferReader(blob),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(blob) + 1),
            pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except (ValueError, pa.ArrowException):
        return None
    if table.num_rows != len(payloads):  # several objects in one line
        return None
    [batch] = table.combine_chunks().to_batches()
    return batch


def _where(conditions: pa.Array) -> np.ndarray:
    found: np.ndarray = conditions.fill_null(False).to_numpy(zero_copy_only=False)
    return found
