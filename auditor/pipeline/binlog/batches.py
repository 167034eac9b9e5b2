"""Collect decoded rows of a table and make Arrow batches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from auditor.errors import LogRefused
from auditor.pipeline.binlog.table_map import TableMap
from auditor.pipeline.binlog.type_decoders import Decoder
from auditor.pipeline.events import ARROW_SCHEMA, EventKind, TableSchema

MAX_ROWS = 16_384
MAX_BYTES = 4 << 20
"""Rows, and bytes of the log, after which rows of a table are handed on."""

WITHOUT_BEFORE, WITHOUT_AFTER = ("insert", "refresh"), ("delete", "absent")
"""Kinds of events in which an image is missing."""

_LIST = ARROW_SCHEMA.field("before").type


Project = Callable[[pa.RecordBatch, TableSchema], pa.RecordBatch]
"""Makes of events of one table and schema what leaves the source: without some columns or rows, under another schema."""


def unchanged(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Return the events as they are."""
    del schema
    return batch


class RowBuffer:
    """Rows of one table with one schema. Rows of one event share everything but their number and their values."""

    def __init__(self, table: TableMap, decode: Decoder, project: Project) -> None:
        self.table = table
        self.decode = decode
        self._project = project
        self._width = len(table.places)
        self.rows = 0
        self.bytes = 0
        self.is_announced = False
        self.clear()

    def clear(self) -> None:
        """Forget the rows."""
        self.before: list[str | None] = []
        self.after: list[str | None] = []
        self._kinds: list[EventKind] = []
        self._gtids: list[str | None] = []
        self._positions: list[int] = []
        self._times: list[int] = []
        self._first_rows: list[int] = []
        self._counts: list[int] = []
        self.rows = self.bytes = 0

    def add(self, kind: EventKind, gtid: str | None, position: int, time: int, first_row: int, count: int, size: int) -> None:
        """Note what the rows of one event, whose values are appended to ``before`` and ``after``, have in common."""
        self._kinds.append(kind)
        self._gtids.append(gtid)
        self._positions.append(position)
        self._times.append(time)
        self._first_rows.append(first_row)
        self._counts.append(count)
        self.rows += count
        self.bytes += size

    def take_back(self, position: int, first: int) -> int:
        """Forget the rows of the transaction at a position from a number on; return how many there were."""
        gone = 0
        while self._positions and self._positions[-1] == position and self._first_rows[-1] >= first:
            kind, count = self._kinds.pop(), self._counts.pop()
            for places in (self._gtids, self._positions, self._times, self._first_rows):
                places.pop()
            for values, kinds in ((self.before, WITHOUT_BEFORE), (self.after, WITHOUT_AFTER)):
                if kind not in kinds:
                    del values[-count * len(self.table.columns) :]
            gone += count
        self.rows -= gone
        return gone

    @property
    def last(self) -> tuple[int, int]:
        """Position and number of the last row."""
        return self._positions[-1], self._first_rows[-1] + self._counts[-1] - 1

    @property
    def is_full(self) -> bool:
        """Whether the rows should be handed on."""
        return self.rows >= MAX_ROWS or self.bytes >= MAX_BYTES

    @property
    def places(self) -> list[tuple[str | None, int, int, int]]:
        """Global id, position, number of the first row and time of each event whose rows are here."""
        return list(zip(self._gtids, self._positions, self._first_rows, self._times, strict=True))

    def flush(self, announcement: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows as one batch, and before the first one the table's schema, with the row number -1 - ``announcement``."""
        if not self.rows:
            return
        if not self.is_announced:
            self.is_announced = True
            yield self._project(self._schema_event(announcement), self.table.schema)
        batch = self._project(self._batch(), self.table.schema)
        self.clear()
        if batch.num_rows:
            yield batch

    def _batch(self) -> pa.RecordBatch:
        counts = np.array(self._counts, dtype=np.int64)
        runs = np.repeat(np.arange(len(counts)), counts)
        starts = np.cumsum(counts) - counts
        has_before = np.array([kind not in WITHOUT_BEFORE for kind in self._kinds], dtype=bool)[runs]
        has_after = np.array([kind not in WITHOUT_AFTER for kind in self._kinds], dtype=bool)[runs]
        rows = np.arange(self.rows) + np.repeat(np.array(self._first_rows, dtype=np.int64) - starts, counts)
        columns = [
            pa.array(self._kinds, pa.string()).take(pa.array(runs)),
            _constant(self.table.database, self.rows),
            _constant(self.table.table, self.rows),
            _constant(self.table.schema_id, self.rows),
            pa.array(self._gtids, pa.string()).take(pa.array(runs)),
            pa.array(np.array(self._positions, dtype=np.int64)[runs]),
            pa.array(rows, pa.int64()),
            pa.array(np.array(self._times, dtype="datetime64[us]")[runs], ARROW_SCHEMA.field("time").type),
            self._lists(self.before, has_before),
            self._lists(self.after, has_after),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)

    def _lists(self, values: list[str | None], present: np.ndarray) -> pa.Array:
        if not values:
            return pa.nulls(len(present), _LIST)
        texts = pa.array(values, pa.string())
        if isinstance(texts, pa.ChunkedArray):
            raise LogRefused(f"a row of {self.table.name} is larger than 2 GiB as text; leave the table out")
        offsets = np.zeros(len(present) + 1, dtype=np.int32)
        np.cumsum(present * self._width, out=offsets[1:])
        mask = None if present.all() else pa.array(~present)
        return pa.ListArray.from_arrays(pa.array(offsets), texts, type=_LIST, mask=mask)

    def _schema_event(self, announcement: int) -> pa.RecordBatch:
        table = self.table
        columns = [
            pa.array(["schema"], pa.string()),
            _constant(table.database, 1),
            _constant(table.table, 1),
            _constant(table.schema_id, 1),
            pa.array(self._gtids[:1], pa.string()),
            pa.array(self._positions[:1], pa.int64()),
            pa.array([-1 - announcement], pa.int64()),
            pa.array(self._times[:1], ARROW_SCHEMA.field("time").type),
            pa.nulls(1, _LIST),
            pa.array([[table.schema.to_json()]], _LIST),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


FOREVER = ("2038-01-19 03:14:07.999999", "2106-02-07 06:28:15.999999")
"""The end of a period that has not ended, up to MariaDB 11.4 and since. https://mariadb.com/kb/en/timestamp/"""


class CurrentRows(RowBuffer):
    """Rows of a system-versioned table that are valid, as a SELECT shows them; those of its history are passed by."""

    def take(self, kind: EventKind, event: bytes, at: int, stop: int) -> list[tuple[EventKind, int]]:
        """Decode the rows of an event, and append those that are or were valid; return what happens to them, in order, and to how many."""
        images: list[tuple[str | None, ...]] = []
        self.decode(event, at, stop, images.append, images.append)
        shown, ends = self.table.places, self.table.ends
        assert ends is not None
        kind_counts: list[tuple[EventKind, int]] = []
        for pair in zip(images[::2], images[1::2], strict=True) if kind == "update" else ((image, image) for image in images):
            before, after = (image if image[ends] in FOREVER else None for image in pair)
            if kind != "insert" and before:
                self.before.extend(before[number] for number in shown)
            if kind != "delete" and after:
                self.after.extend(after[number] for number in shown)
            happens: EventKind = kind if kind != "update" or (before and after) else "delete" if before else "insert"
            if before or after:
                kind_counts.append((happens, 1))
        return kind_counts


def _constant(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)
