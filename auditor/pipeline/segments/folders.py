"""Where segments are: blocks of files over all tables, in the staging's folder, or an archive with a file for each of them."""

from __future__ import annotations

import datetime as dt
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import PartDamaged, SegmentFailed
from auditor.model import Segment
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import UNFINISHED, Folder
from auditor.pipeline.part_writer import GROUP_BYTES, EventFile, block_of
from auditor.pipeline.staged_parts import ENDING, ROWS_PER_GROUP

SEGMENTS = "segments"
"""The folder of the files that a pipeline's writer makes, below that of the staging."""

COPIES = "segments-copied"
"""The folder of those that were copied from the other side of a segment audit."""

FILE_BYTES = 64 << 20
"""Bytes of a file from which the next segments are written into another one."""

ALWAYS_THERE = ("kind", "database", "table", "schema_id", "position", "row", "time")
"""Fields that every event has."""

LEAST_TIME, LARGEST_TIME = (int(one.replace(tzinfo=dt.UTC).timestamp()) * 1_000_000 for one in (dt.datetime.min, dt.datetime.max))
"""Microseconds since 1970 of the times that Python knows."""

Blocks = tuple[tuple[int, int], ...]
"""Where record batches are in a file: offset and bytes of each."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A segment that is to be written."""

    table: str
    """Database and table, with a point between."""
    first: int
    """Position of its first event."""
    first_row: int
    events: Iterable[pa.RecordBatch]
    """They are read while they are written; no batch is empty."""


class SegmentFolder(ABC):
    """Where a pipeline's segments are kept."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The folder's path, or its URL."""

    @abstractmethod
    def write(self, stretches: Iterable[Stretch], *, are_copies: bool = False) -> list[tuple[str, Blocks]]:
        """Write segments, one after the other; return the path of each one's file, and its blocks there; none if the file is its own.

        Copies get new names, others those that they had before the writer was killed. Raises SegmentFailed and StagingFailed.
        """

    @abstractmethod
    def read(self, segment: Segment) -> pa.Table:
        """Return the events of a segment. Raises SegmentFailed if they are missing or damaged."""

    @abstractmethod
    def place_of(self, segment: Segment) -> str:
        """Return where a segment is, for people."""

    def sweep(self, after: int, find_listed: Callable[[Collection[str]], set[str]]) -> list[str]:
        """Delete the files that a killed writer left, whose segments begin behind a position, and return their paths; none of an archive.

        ``find_listed`` returns which of some files have segments. Raises SegmentFailed.
        """
        return []


@dataclass(frozen=True, slots=True)
class JoinedFiles(SegmentFolder):
    """Files of all tables in the folder of the staging, each an Arrow stream as staged files are, and segments blocks of them."""

    root: Folder

    @property
    def url(self) -> str:
        """The folder of the staging."""
        return str(self.root)

    def write(self, stretches: Iterable[Stretch], *, are_copies: bool = False) -> list[tuple[str, Blocks]]:
        """Write segments into one file, or into several if they are large."""
        folder, mark = (COPIES, f".{uuid4().hex[:8]}") if are_copies else (SEGMENTS, "")
        written: list[tuple[str, Blocks]] = []
        waiting: list[tuple[Stretch, Blocks]] = []
        file = EventFile(self.root, folder)
        try:
            for stretch in stretches:
                waiting.append((stretch, tuple(file.write(block_of(batch)) for batch in _gathered(stretch.events))))
                if file.size >= FILE_BYTES:
                    written += _finish(file, waiting, mark)
                    file, waiting = EventFile(self.root, folder), []
            return written + _finish(file, waiting, mark)
        except BaseException:
            file.abandon()
            raise

    def read(self, segment: Segment) -> pa.Table:
        """Return the events of a segment's blocks; nothing else of the file is read."""
        if not segment.blocks:
            raise SegmentFailed(f"{self.place_of(segment)} was written into an archive; give its path in segment: path again to read it")
        try:
            blocks = [self.root.read(segment.path, offset, size) for offset, size in segment.blocks]
            batches = [pa.ipc.read_record_batch(block, ARROW_SCHEMA) for block in blocks]
            for batch in batches:
                _check(batch)
        except FileNotFoundError as error:
            raise SegmentFailed(f"{self.place_of(segment)} is missing; check that this process reaches its folder") from error
        except (OSError, EOFError, pa.ArrowException, PartDamaged) as error:
            raise SegmentFailed(f"{self.place_of(segment)}: {error}") from error
        return pa.Table.from_batches(batches, ARROW_SCHEMA)

    def place_of(self, segment: Segment) -> str:
        """Return the file, and whose segment it is there."""
        return f"the segment of {segment.table} in {self.url}/{segment.path}"

    def sweep(self, after: int, find_listed: Callable[[Collection[str]], set[str]]) -> list[str]:
        """Delete files that no segment is listed in, and unfinished ones; call it only where no other process cuts."""
        try:
            found = [path for path in self.root.names() if path.startswith(f"{SEGMENTS}/") and _is_behind(path, after)]
            orphans = sorted(set(found) - find_listed(found))
            self.root.delete(orphans)
        except OSError as error:
            raise SegmentFailed(f"unfinished segments below {self.url}/{SEGMENTS} cannot be deleted: {error}") from error
        return orphans


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches that are large enough for a block, and the rest."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_PER_GROUP or size >= GROUP_BYTES:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, rows, size = [], 0, 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _check(events: pa.RecordBatch) -> None:
    """Raise ArrowInvalid where the bytes of a damaged block make no events: no text, lengths beyond it, or times beyond all years."""
    events.validate(full=True)
    if any(events[name].null_count for name in ALWAYS_THERE):
        raise pa.ArrowInvalid(f"it has events without {', '.join(ALWAYS_THERE)}")
    range_of_times = pc.min_max(events["time"].cast(pa.int64())).as_py()
    if not LEAST_TIME <= range_of_times["min"] <= range_of_times["max"] <= LARGEST_TIME:
        raise pa.ArrowInvalid("it has times beyond all years")


def _finish(file: EventFile, waiting: Sequence[tuple[Stretch, Blocks]], mark: str) -> list[tuple[str, Blocks]]:
    """Let a file take its place, named by the segments in it."""
    if not waiting:
        return []
    listed = "\n".join(f"{stretch.table} {stretch.first} {stretch.first_row}" for stretch, _ in waiting)
    first = min(stretch.first for stretch, _ in waiting)
    path = file.finish(f"{first:019d}-{hashlib.sha256(listed.encode()).hexdigest()[:12]}{mark}{ENDING}")
    return [(path, blocks) for _, blocks in waiting]


def _is_behind(path: str, position: int) -> bool:
    """Return whether a file was begun by a writer whose segments begin behind a position."""
    name = path.rpartition("/")[2]
    first = name.partition("-")[0]
    return name.endswith(UNFINISHED) or (first.isdecimal() and int(first) > position)
