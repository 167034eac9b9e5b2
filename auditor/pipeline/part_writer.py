"""Write the events of a task as parts while they come, so that a transaction of any size takes no more memory than another.

A part has all events of its table and schema that follow one another in the task: it ends where a transaction ends, so that no target ever
shows half of one. What does not fit into memory goes into its file, a row group after the other.
"""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.errors import StagingFailed, StagingFull
from auditor.model import Part
from auditor.pipeline.event_count import Tally
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import Folder
from auditor.pipeline.staged_parts import ENDING, ROWS_PER_GROUP, folder_name

CONSTANT_COLUMNS = ["kind", "database", "table", "schema_id"]
"""Columns with few values, which take next to no room in a part."""

GROUP_BYTES = 16 << 20
"""Bytes of a table's events that are written as a row group, even if these are fewer than its rows."""

HELD_BYTES = 64 << 20
"""Bytes of events of all tables of a task that are held in memory."""

LEAST_BYTES = 256 << 10
"""Bytes of a table's events below which no room is made by writing them."""

MOST_OPEN = 100
"""Parts of a task that are written side by side. Where one transaction fills more tables, the others' rows wait in memory."""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that was written, and the JSON of its schema if its task announced it."""

    part: Part
    schema_json: str | None = None
    tally: Tally = field(default_factory=Tally)
    """The events that went into its file."""


def write_parts(root: Folder, batches: Iterable[pa.RecordBatch]) -> list[WrittenPart]:
    """Write events as parts below ``root``, and return these: for each table, in order, one for each stretch of one schema.

    Each batch has events of one table, and comes after the earlier ones of that table; the next one is asked for when there is room. If
    that fails, no part is left half written. Raises StagingFull on a full disk, StagingFailed if the folder cannot be written.
    """
    tables: dict[tuple[str, str], _TableWriter] = {}
    held_bytes = 0
    try:
        for batch in batches:
            if batch.num_rows:
                name = batch["database"][0].as_py(), batch["table"][0].as_py()
                if name not in tables:
                    tables[name] = _TableWriter(root, ".".join(name))
                held_bytes += tables[name].take(batch)
                held_bytes -= _make_room(tables[name], tables.values(), held_bytes)
        return [written for _, table in sorted(tables.items()) for written in table.end()]
    except BaseException:
        for table in tables.values():
            table.abandon()
        raise


def _make_room(table: _TableWriter, tables: Collection[_TableWriter], held_bytes: int) -> int:
    """Write a row group of a table that has enough for one, or of those that have most where too much is held; return how many bytes."""
    due = [table] if table.is_full else []
    if held_bytes > HELD_BYTES:
        due = sorted((writer for writer in tables if writer.bytes >= LEAST_BYTES), key=lambda writer: writer.bytes, reverse=True)
    written = 0
    for writer in due:
        if writer.is_open or sum(other.is_open for other in tables) < MOST_OPEN:
            written += writer.write_group()
        if writer is not table and held_bytes - written <= HELD_BYTES // 2:
            break
    return written


class _TableWriter:
    """The events of one table in a task: those that are held, and the part that is being written."""

    def __init__(self, root: Folder, table: str) -> None:
        self._root, self._table = root, table
        self._waiting: list[pa.RecordBatch] = []
        self._announced: dict[str, str] = {}
        """The JSON of schemas, by id, of which no part was written yet."""
        self._known: set[str] = set()
        self._part: _UnfinishedPart | None = None
        self._written: list[WrittenPart] = []
        self._last = (-1, -1)
        """Position and row of the last event that was written."""
        self._rows = self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a row group."""
        return self._rows >= ROWS_PER_GROUP or self.bytes >= GROUP_BYTES

    @property
    def is_open(self) -> bool:
        """Whether a part is being written."""
        return self._part is not None

    def take(self, batch: pa.RecordBatch) -> int:
        """Hold a batch of events, and return how many bytes it has."""
        is_schema = pc.equal(batch["kind"], "schema")
        announced = batch.filter(is_schema)
        for row in announced.select(["schema_id", "after"]).to_pylist():
            if row["schema_id"] not in self._known:
                self._known.add(row["schema_id"])
                self._announced[row["schema_id"]] = row["after"][0]
        self._time = pc.max(batch["time"]).as_py()
        rows = batch.filter(pc.invert(is_schema)) if announced.num_rows else batch
        if not rows.num_rows:
            return 0
        size: int = rows.nbytes
        self._waiting.append(rows)
        self._rows, self.bytes = self._rows + rows.num_rows, self.bytes + size
        return size

    def write_group(self) -> int:
        """Write what is held, and return how many bytes that was. Raises StagingFull and StagingFailed."""
        if not self._waiting:
            return 0
        events, size = pa.Table.from_batches(self._waiting).select(ARROW_SCHEMA.names), self.bytes
        self._waiting, self._rows, self.bytes = [], 0, 0
        events = events.sort_by([("position", "ascending"), ("row", "ascending")]).combine_chunks()
        if _place(events, 0) <= self._last:
            raise StagingFailed(f"the source gave events of {self._table} that lie before earlier ones; report this as a bug of the source")
        self._last = _place(events, -1)
        for stretch in _stretches(events):
            schema_id = stretch["schema_id"][0].as_py()
            if self._part and self._part.schema_id != schema_id:
                self._finish()
            if self._part is None:
                self._part = _UnfinishedPart(self._root, self._table, schema_id, _place(stretch, 0)[0])
            self._part.write(stretch)
        return size

    def end(self) -> list[WrittenPart]:
        """Write the rest, and return the parts, and an empty one for each schema that was announced and has none."""
        self.write_group()
        self._finish()
        empty = [WrittenPart(Part(self._table, 0, 0, 0, 0, name, "", self._time), body) for name, body in self._announced.items()]
        return self._written + empty

    def abandon(self) -> None:
        """Delete the part that is being written."""
        if self._part:
            self._part.abandon()

    def _finish(self) -> None:
        if self._part:
            part, tally = self._part.finish(), self._part.tally
            self._part = None
            self._written.append(WrittenPart(part, self._announced.pop(part.schema_id, None), tally))


class _UnfinishedPart:
    """A part that is being written."""

    def __init__(self, root: Folder, table: str, schema_id: str, first: int) -> None:
        self.schema_id = schema_id
        self._root, self._table, self._first = root, table, first
        self._path = Path(folder_name(table), f"{first:019d}{ENDING}")
        self._last, self.tally = first, Tally()
        with self._failures():
            self._new_file = root.new_file(str(self._path))
            self._handle = _Hashed(self._new_file.file)
            self._writer = pq.ParquetWriter(self._handle, ARROW_SCHEMA, compression="zstd", use_dictionary=CONSTANT_COLUMNS)

    def write(self, events: pa.Table) -> None:
        """Write sorted events as a row group."""
        with self._failures():
            self._writer.write_table(events, row_group_size=events.num_rows)
        self.tally.add(events)
        self._last, self._time = _place(events, -1)[0], events["time"][-1].as_py()

    def finish(self) -> Part:
        """Let the part take its place, and return it."""
        with self._failures():
            self._writer.close()
            self._handle.flush()
            size = self._handle.tell()
            self._new_file.finish()
            self._handle.close()
        path, checksum = str(self._path), self._handle.hash.hexdigest()
        return Part(self._table, self._first, self._last, self.tally.events, size, self.schema_id, path, self._time, checksum)

    def abandon(self) -> None:
        """Delete what was written."""
        self._writer.is_open = False  # else it writes its end when it is collected
        with suppress(OSError):  # of a full disk, which was reported
            self._new_file.abandon()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Tell why the block cannot write."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StagingFull(f"the disk of {self._root.buffer} is full; free some space there") from error
            raise StagingFailed(f"the staging's folder {self._root} cannot be written: {error.strerror or error}") from error


class _Hashed(io.RawIOBase):
    """A file whose bytes are hashed while they are written, one after the other: what the disk makes of them is found out later."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        """Write bytes after the others."""
        self.hash.update(data)
        return self.file.write(data)

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self.file.tell()

    def flush(self) -> None:
        """Hand what was written to the system."""
        if not self.file.closed:
            self.file.flush()

    def close(self) -> None:
        """Close the file."""
        self.file.close()
        super().close()


def _place(events: pa.Table, index: int) -> tuple[int, int]:
    return events["position"][index].as_py(), events["row"][index].as_py()


def _stretches(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the runs of equal schema ids of sorted events."""
    ids = rows["schema_id"].combine_chunks()
    ends = [*pc.indices_nonzero(pc.not_equal(ids[1:], ids[:-1])).to_pylist(), rows.num_rows - 1]
    start = 0
    for end in ends:
        yield rows.slice(start, end + 1 - start)
        start = end + 1
