"""Collect decoded rows of a table and make Arrow batches of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from auditor.errors import LogRefused
from auditor.pipeline.binlog.table_map import TableMap
from auditor.pipeline.binlog.type_decoders import Decoder
from auditor.pipeline.events import ARROW_SCHEMA, EventKind

MAX_ROWS = 16_384
MAX_BYTES = 4 << 20
"""Rows, and bytes of the log, after which rows of a table are handed on."""

WITHOUT_BEFORE, WITHOUT_AFTER = ("insert", "refresh"), ("delete", "absent")
"""Kinds of events in which an image is missing."""

_LIST = ARROW_SCHEMA.field("before").type


class RowBuffer:
    """Rows of one table with one schema. Rows of one event share everything but their number and their values."""

    def __init__(self, table: TableMap, decode: Decoder) -> None:
        self.table = table
        self.decode = decode
        self.rows = 0
        self.bytes = 0
        self.is_announced = False
        self.clear()

    def clear(self) -> None:
        """Forget the rows."""
        self.before: list[str | None] = []
        self.after: list[str | None] = []
        self.kinds: list[EventKind] = []
        self.gtids: list[str | None] = []
        self.positions: list[int] = []
        self.times: list[int] = []
        self.first_rows: list[int] = []
        self.counts: list[int] = []
        self.rows = self.bytes = 0

    def add(self, kind: EventKind, gtid: str | None, position: int, time: int, first_row: int, count: int, size: int) -> None:
        """Note what the rows of one event, whose values are appended to ``before`` and ``after``, have in common."""
        self.kinds.append(kind)
        self.gtids.append(gtid)
        self.positions.append(position)
        self.times.append(time)
        self.first_rows.append(first_row)
        self.counts.append(count)
        self.rows += count
        self.bytes += size

    def take_back(self, position: int, first: int) -> int:
        """Forget the rows of the transaction at a position from a number on; return how many there were."""
        gone = 0
        while self.positions and self.positions[-1] == position and self.first_rows[-1] >= first:
            kind, count = self.kinds.pop(), self.counts.pop()
            for places in (self.gtids, self.positions, self.times, self.first_rows):
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
        return self.positions[-1], self.first_rows[-1] + self.counts[-1] - 1

    @property
    def is_full(self) -> bool:
        """Whether the rows should be handed on."""
        return self.rows >= MAX_ROWS or self.bytes >= MAX_BYTES

    @property
    def places(self) -> list[tuple[str | None, int, int, int]]:
        """Global id, position, number of the first row and time of each event whose rows are here."""
        return list(zip(self.gtids, self.positions, self.first_rows, self.times, strict=True))


def batch_of(buffers: Sequence[RowBuffer]) -> pa.RecordBatch:
    """Return the rows of these buffers, one buffer after the other, as one batch.

    Where tables are many, each has a few rows, and what is done once for each table costs more than its rows do. Raises LogRefused, which
    names the first table, if the texts do not fit into one batch.
    """
    counts = np.array([count for buffer in buffers for count in buffer.counts], dtype=np.int64)
    rows, runs = int(counts.sum()), np.repeat(np.arange(len(counts)), counts)
    kinds = [kind for buffer in buffers for kind in buffer.kinds]
    first_rows = np.fromiter(chain.from_iterable(buffer.first_rows for buffer in buffers), np.int64, len(counts))
    positions = np.fromiter(chain.from_iterable(buffer.positions for buffer in buffers), np.int64, len(counts))
    times = np.array([time for buffer in buffers for time in buffer.times], dtype="datetime64[us]")
    of_buffer = pa.array(np.repeat(np.arange(len(buffers)), [buffer.rows for buffer in buffers]))
    widths = np.repeat([len(buffer.table.places) for buffer in buffers], [buffer.rows for buffer in buffers])
    numbers = np.arange(rows) + np.repeat(first_rows - (np.cumsum(counts) - counts), counts)
    images = [
        _lists(buffers, [getattr(buffer, name) for buffer in buffers], np.array([kind not in without for kind in kinds])[runs], widths)
        for name, without in (("before", WITHOUT_BEFORE), ("after", WITHOUT_AFTER))
    ]
    columns = [
        pa.array(kinds, pa.string()).take(pa.array(runs)),
        pa.array([buffer.table.database for buffer in buffers], pa.string()).take(of_buffer),
        pa.array([buffer.table.table for buffer in buffers], pa.string()).take(of_buffer),
        pa.array([buffer.table.schema_id for buffer in buffers], pa.string()).take(of_buffer),
        pa.array([gtid for buffer in buffers for gtid in buffer.gtids], pa.string()).take(pa.array(runs)),
        pa.array(positions[runs]),
        pa.array(numbers, pa.int64()),
        pa.array(times[runs], ARROW_SCHEMA.field("time").type),
        *images,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _lists(buffers: Sequence[RowBuffer], values: Collection[list[str | None]], present: np.ndarray, widths: np.ndarray) -> pa.Array:
    """Return the images of rows, NULL where one is not present, of the values of all buffers, one after the other."""
    if not any(values):
        return pa.nulls(len(present), _LIST)
    texts = pa.array(list(chain.from_iterable(values)), pa.string())
    if isinstance(texts, pa.ChunkedArray):
        raise LogRefused(f"a row of {buffers[0].table.name} is larger than 2 GiB as text; leave the table out")
    offsets = np.zeros(len(present) + 1, dtype=np.int32)
    np.cumsum(present * widths, out=offsets[1:])
    mask = None if present.all() else pa.array(~present)
    return pa.ListArray.from_arrays(pa.array(offsets), texts, type=_LIST, mask=mask)


def announcements_of(buffers: Sequence[RowBuffer], first: int) -> pa.RecordBatch:
    """Return the schemas of these buffers, which have rows, as events numbered -1 - ``first`` and on."""
    columns = [
        pa.array(["schema"] * len(buffers), pa.string()),
        pa.array([buffer.table.database for buffer in buffers], pa.string()),
        pa.array([buffer.table.table for buffer in buffers], pa.string()),
        pa.array([buffer.table.schema_id for buffer in buffers], pa.string()),
        pa.array([buffer.gtids[0] for buffer in buffers], pa.string()),
        pa.array([buffer.positions[0] for buffer in buffers], pa.int64()),
        pa.array([-1 - first - number for number in range(len(buffers))], pa.int64()),
        pa.array([buffer.times[0] for buffer in buffers], ARROW_SCHEMA.field("time").type),
        pa.nulls(len(buffers), _LIST),
        pa.array([[buffer.table.schema.to_json()] for buffer in buffers], _LIST),
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
