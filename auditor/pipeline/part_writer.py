"""Write the events of a task into its file while they come, so that a transaction of any size takes no more memory than another.

A part has all events of its table and schema that follow one another in the task: it ends where a transaction ends, so that no target ever
shows half of one. What does not fit into memory goes into the file, a block of one part after a block of another.
"""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import StagingFailed, StagingFull
from auditor.model import Part
from auditor.pipeline.event_count import Tally
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import Folder, NewFile
from auditor.pipeline.staged_parts import BATCHES, ENDING, ROWS_PER_GROUP, checked_blocks

COMPRESSED_BYTES = 64 << 10
"""Bytes from which a block is compressed: each of its columns takes a frame of its own, which are 0.2 ms to read whatever is in them."""

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format"""

GROUP_BYTES = 16 << 20
"""Bytes of a table's events that are written as a block, even if these are fewer than its rows."""

HELD_BYTES = 64 << 20
"""Bytes of events of all tables of a task that are held in memory."""

LEAST_BYTES = 256 << 10
"""Bytes of a table's events below which no room is made by writing them."""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that was written, and the JSON of its schema if its task announced it."""

    part: Part
    schema_json: str | None = None
    tally: Tally = field(default_factory=Tally)
    """The events that went into its file."""


def write_parts(root: Folder, batches: Iterable[pa.RecordBatch]) -> list[WrittenPart]:
    """Write events as parts in one file below ``root``, and return these: for each table, in order, one for each stretch of one schema.

    Each batch has events of one table, beside announcements of schemas, and comes after the earlier ones of that table; the next one is
    asked for when there is room. If that fails, there is no file. Raises StagingFull on a full disk, StagingFailed if the folder cannot be
    written.
    """
    tables: dict[tuple[str, str], _TableWriter] = {}
    held_bytes = 0
    file = EventFile(root)
    try:
        for batch in batches:
            events = _announce(batch, file, tables)
            if events.num_rows:
                name = _table_of(events)
                writer = tables[name] = tables.get(name) or _TableWriter(file, ".".join(name))
                held_bytes += writer.take(events)
                held_bytes -= _make_room(writer, tables.values(), held_bytes)
        written = [written for _, table in sorted(tables.items()) for written in table.end()]
        path = file.finish(_file_name([one.part for one in written if one.part.rows]))
        return [replace(one, part=replace(one.part, path=path)) if one.part.rows else one for one in written]
    except BaseException:
        file.abandon()
        raise


def _announce(batch: pa.RecordBatch, file: EventFile, tables: dict[tuple[str, str], _TableWriter]) -> pa.RecordBatch:
    """Let the tables know the schemas that a batch announces, and return its other events."""
    if not batch.num_rows or pc.min(batch["row"]).as_py() >= 0:
        return batch
    is_schema = pc.equal(batch["kind"], "schema")
    announced = batch.filter(is_schema).select(["database", "table", "schema_id", "time", "after"])
    for database, table, schema_id, time, (body,) in zip(*(column.to_pylist() for column in announced.columns), strict=True):
        writer = tables[database, table] = tables.get((database, table)) or _TableWriter(file, f"{database}.{table}")
        writer.announce(schema_id, body, time)
    return batch.filter(pc.invert(is_schema))


def _table_of(events: pa.RecordBatch) -> tuple[str, str]:
    return events["database"][0].as_py(), events["table"][0].as_py()


def _file_name(parts: Sequence[Part]) -> str:
    """Return a name that the same events of a task have again, and those of no other one."""
    listed = "\n".join(f"{part.table} {part.first} {part.schema_id}" for part in parts)
    return f"{min((part.first for part in parts), default=0):019d}-{hashlib.sha256(listed.encode()).hexdigest()[:12]}{ENDING}"


def copy_parts(root: Folder, parts: Sequence[Part], name: str, into: Folder) -> list[tuple[Part, Part]]:
    """Copy the blocks of parts of whichever files below ``root`` into a new one of this name; return each part, and as it is there.

    Raises PartDamaged, and as `write_parts` does.
    """
    return write_copies(((part, checked_blocks(root, part)) for part in parts), name, into)


def write_copies(read: Iterable[tuple[Part, Iterable[bytes]]], name: str, into: Folder) -> list[tuple[Part, Part]]:
    """Write the blocks of parts into a new file of this name; return each part, and as it is there. Raises as `write_parts` does."""
    file = EventFile(into)
    try:
        moved = [(part, replace(part, blocks=tuple(file.write(block) for block in blocks))) for part, blocks in read]
        path = file.finish(f"{name}{ENDING}")
        return [(old, replace(new, path=path)) for old, new in moved]
    except BaseException:
        file.abandon()
        raise


def _make_room(table: _TableWriter, tables: Collection[_TableWriter], held_bytes: int) -> int:
    """Write a block of a table that has enough for one, or of those that have most where too much is held; return how many bytes."""
    due = [table] if table.is_full else []
    if held_bytes > HELD_BYTES:
        due = sorted((writer for writer in tables if writer.bytes >= LEAST_BYTES), key=lambda writer: writer.bytes, reverse=True)
    written = 0
    for writer in due:
        written += writer.write_block()
        if writer is not table and held_bytes - written <= HELD_BYTES // 2:
            break
    return written


class _TableWriter:
    """The events of one table in a task: those that are held, and the part that is being written."""

    def __init__(self, file: EventFile, table: str) -> None:
        self._file, self._table = file, table
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
        """Whether there is enough for a block."""
        return self._rows >= ROWS_PER_GROUP or self.bytes >= GROUP_BYTES

    def announce(self, schema_id: str, body: str, time: dt.datetime) -> None:
        """Take the JSON of a schema, and when an event that has it was committed."""
        self._time = time
        if schema_id not in self._known:
            self._known.add(schema_id)
            self._announced[schema_id] = body

    def take(self, events: pa.RecordBatch) -> int:
        """Hold a batch of events, none of which announces a schema, and return how many bytes it has."""
        size: int = events.nbytes
        self._waiting.append(events)
        self._rows, self.bytes = self._rows + events.num_rows, self.bytes + size
        return size

    def write_block(self) -> int:
        """Write what is held, and return how many bytes that was. Raises StagingFull and StagingFailed."""
        if not self._waiting:
            return 0
        waiting, size = self._waiting, self.bytes
        self._waiting, self._rows, self.bytes = [], 0, 0
        for stretch in _stretches(waiting):
            schema_id, (first, last) = stretch["schema_id"][0].as_py(), _ends(stretch)
            if first <= self._last:
                raise StagingFailed(
                    f"the source gave events of {self._table} that lie before earlier ones; report this as a bug of the source"
                )
            self._last = last
            if self._part and self._part.schema_id != schema_id:
                self._finish()
            if self._part is None:
                self._part = _UnfinishedPart(self._table, schema_id, first[0])
            self._part.write(self._file, stretch)
        return size

    def end(self) -> list[WrittenPart]:
        """Write the rest, and return the parts, and an empty one for each schema that was announced and has none."""
        self.write_block()
        self._finish()
        empty = [WrittenPart(Part(self._table, 0, 0, 0, 0, name, "", self._time), body) for name, body in self._announced.items()]
        return self._written + empty

    def _finish(self) -> None:
        if self._part:
            part, tally = self._part.finish(), self._part.tally
            self._part = None
            self._written.append(WrittenPart(part, self._announced.pop(part.schema_id, None), tally))


class _UnfinishedPart:
    """A part some of whose blocks are written."""

    def __init__(self, table: str, schema_id: str, first: int) -> None:
        self.schema_id, self.tally = schema_id, Tally()
        self._table, self._first, self._last = table, first, first
        self._blocks: list[tuple[int, int]] = []
        self._hash = hashlib.sha256()

    def write(self, file: EventFile, events: pa.RecordBatch) -> None:
        """Write sorted events as a block."""
        block = block_of(events)
        self._hash.update(block)
        self._blocks.append(file.write(block))
        self.tally.add(events)
        self._last, self._time = events["position"][-1].as_py(), events["time"][-1].as_py()

    def finish(self) -> Part:
        """Return the part, in a file that has no name yet."""
        blocks, checksum = tuple(self._blocks), self._hash.hexdigest()
        size = sum(size for _, size in blocks)
        return Part(self._table, self._first, self._last, self.tally.events, size, self.schema_id, "", self._time, checksum, blocks)


class EventFile:
    """A file of events in a folder below ``root``, which is begun with its first block: a stream of Arrow's."""

    def __init__(self, root: Folder, folder: str = BATCHES) -> None:
        self._root, self._folder = root, folder
        self._new_file: NewFile | None = None
        self.size = 0
        """Bytes that were written."""

    def write(self, block: bytes) -> tuple[int, int]:
        """Write a block, and return where it is. Raises StagingFull and StagingFailed."""
        with self._failures():
            if self._new_file is None:
                self._new_file = self._root.new_file(self._folder)
                self._write(ARROW_SCHEMA.serialize().to_pybytes())
            begin = self.size
            self._write(block)
        return begin, len(block)

    def finish(self, name: str) -> str:
        """Let the file take its place, and return its path; '' if nothing was written. Raises as `write` does."""
        if self._new_file is None:
            return ""
        with self._failures():
            self._write(END_OF_STREAM)
            self._new_file.finish(name)
        return f"{self._folder}/{name}"

    def abandon(self) -> None:
        """Delete what was written."""
        if self._new_file is not None:
            with suppress(OSError):  # of a full disk, which was reported
                self._new_file.abandon()

    def _write(self, content: bytes) -> None:
        assert self._new_file is not None
        self._new_file.file.write(content)
        self.size += len(content)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Tell why the block cannot write."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StagingFull(f"the disk of {self._root.buffer} is full; free some space there") from error
            raise StagingFailed(f"the staging's folder {self._root} cannot be written: {error.strerror or error}") from error


def block_of(events: pa.RecordBatch) -> bytes:
    """Return events as a message of an Arrow stream; compressed, if that is worth the time of it."""
    if events.nbytes < COMPRESSED_BYTES:
        return bytes(events.serialize())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ARROW_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(events.slice(0, 0))  # with which the schema is written
        begin = sink.tell()
        writer.write_batch(events)
        end = sink.tell()
    return bytes(sink.getvalue()[begin:end])


def _ends(events: pa.RecordBatch) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return position and row of the first and of the last event."""
    positions, rows = events["position"], events["row"]
    return (positions[0].as_py(), rows[0].as_py()), (positions[-1].as_py(), rows[-1].as_py())


def _stretches(waiting: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the runs of equal schema ids of events of one table, once they are sorted."""
    if len(waiting) == 1 and _is_sorted(waiting[0]) and pc.count_distinct(waiting[0]["schema_id"]).as_py() == 1:
        yield waiting[0]
        return
    events = pa.Table.from_batches(waiting).select(ARROW_SCHEMA.names)
    for rows in events.sort_by([("position", "ascending"), ("row", "ascending")]).combine_chunks().to_batches():
        ids = rows["schema_id"]
        ends = [*pc.indices_nonzero(pc.not_equal(ids[1:], ids[:-1])).to_pylist(), rows.num_rows - 1]
        start = 0
        for end in ends:
            yield rows.slice(start, end + 1 - start)
            start = end + 1


def _is_sorted(events: pa.RecordBatch) -> bool:
    position, row = (events[name].to_numpy() for name in ("position", "row"))
    return bool(np.all((position[1:] > position[:-1]) | ((position[1:] == position[:-1]) & (row[1:] > row[:-1]))))
