"""Write parts as files that the target's engine reads itself: by tasks, so that no row passes the driver.

An engine whose slices read files side by side loads a statement's files in the time that the slice with most of them takes, and each file
has a cost of its own. So the parts of a table are joined, and large ones cut, to as many files as `count_files` says.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapreplace
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa

import dialects
from auditor.connections.writer import writing_dialect
from auditor.errors import AuditorError
from auditor.pipeline.merge.load_tasks import LoadTask, read_changes, settings_of
from dialects import Dialect, Session
from dialects.url import Url
from dialects.writing import StoredFile

log = logging.getLogger(__name__)

LEAST_FILE, MOST_FILE = 1 << 20, 64 << 20
"""Bytes of a file of lines, about: smaller ones take longer to open than to read, and for a larger one the other slices wait.
https://docs.aws.amazon.com/redshift/latest/dg/c_best-practices-use-multiple-files.html"""

EXPANSION = 3
"""Bytes of lines that a byte of a part becomes, at most about: parts are compressed. 1.7 to 1.9 was measured; repeated values take less in
parts."""

UNKNOWN_SLICES = 16
"""How many slices are taken for those of a server that does not say: a multiple of what most clusters have."""

RunFileTasks: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]]
"""Runs a function on tasks that write files, wherever, and returns its results in order."""


class FileTask(Protocol):
    """A file to write."""

    def store(self) -> Any:
        """Write it, and return what is to be known of it. Raises AuditorError."""


def store_files(run_tasks: RunFileTasks, tasks: Sequence[FileTask]) -> Sequence[Any]:
    """Write files by tasks; return what each of them returns, or the error of one that fails."""
    return run_tasks(store_file, tasks)


def store_file(task: FileTask) -> Any:
    """Write a file; return what its task returns, or the error, which survives the way back."""
    try:
        return task.store()
    except AuditorError as error:
        return error


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The changes of parts of one table, to be written to files of these names in a folder: each with as many rows as the others."""

    loads: Sequence[LoadTask]
    folder: str
    names: Sequence[str]

    def store(self) -> list[StoredFile]:
        """Write the files; none that would have no row, but for the first. Raises AuditorError."""
        dialect, url = target_of(self.loads[0])
        assert dialect.writing.files
        rows = _Rows(chain.from_iterable(read_changes(load, dialect) for load in self.loads))
        share = -(-sum(load.part.rows for load in self.loads) // len(self.names))
        stored: list[StoredFile] = []
        for name in self.names:
            some = rows.take(None if name == self.names[-1] else share)
            if not stored or rows.are_left():
                columns = self.loads[0].table.stage_columns
                stored.append(dialect.writing.files.store_lines(url, self.folder, name, columns, some))
        return stored


class _Rows:
    """Rows of tables, of which some are taken after the other."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._held: pa.Table | None = None

    def are_left(self) -> bool:
        """Return whether there is another row."""
        while self._held is None or not self._held.num_rows:
            self._held = next(self._tables, None)
            if self._held is None:
                return False
        return True

    def take(self, most: int | None) -> Iterator[pa.Table]:
        """Yield the next rows, no more than ``most``; None for all."""
        while (most is None or most > 0) and self.are_left():
            assert self._held is not None
            some = self._held.slice(0, most)
            self._held = self._held.slice(some.num_rows)
            most = None if most is None else most - some.num_rows
            yield some


def part_files(tasks: Sequence[LoadTask], folder: str, slices: int) -> list[PartFiles]:
    """Return the files to write for the parts of one table: about equally large, and as many as ``slices`` load best."""
    count = count_files(max(1, sum(task.part.bytes for task in tasks)) * EXPANSION, slices, LEAST_FILE)
    sizes = {id(task): max(1, task.part.bytes) for task in tasks}  # a part without bytes is to be in a file as well
    total = sum(sizes.values())
    large = [task for task in tasks if sizes[id(task)] * count >= total]
    small = [task for task in tasks if sizes[id(task)] * count < total]
    files = [sizes[id(task)] * count // total for task in large]
    for _ in range(count - sum(files) - len(small)):  # more than there are parts to fill them: cut what would be the largest files
        files[max(range(len(large)), key=lambda number: sizes[id(large[number])] / files[number])] += 1
    joined = pack(small, count - sum(files), lambda task: task.part.bytes)
    names = (f"{number:06}.txt" for number in range(count))
    groups = [*(([task], number) for task, number in zip(large, files, strict=True)), *((some, 1) for some in joined)]
    return [PartFiles(some, folder, [next(names) for _ in range(number)]) for some, number in groups]


def count_files(size: int, slices: int, least: int) -> int:
    """Return into how many files of lines this many bytes go: a multiple of the slices, if each file then has ``least`` bytes or more."""
    if size < slices * least:
        return max(1, size // least)
    return slices * -(-size // (slices * MOST_FILE))


Item = TypeVar("Item")


def pack(items: Sequence[Item], count: int, size_of: Callable[[Item], int]) -> list[list[Item]]:
    """Return items in ``count`` groups, or fewer, that are about equally large."""
    groups = [(0, number, list[Item]()) for number in range(count)]
    for item in sorted(items, key=size_of, reverse=True):
        size, number, some = groups[0]
        some.append(item)
        heapreplace(groups, (size + size_of(item), number, some))
    return [some for _, _, some in groups if some]


def target_of(load: LoadTask) -> tuple[Dialect, Url]:
    """Return the dialect of the target of a task, and the URL with which it is written to."""
    connection = settings_of(load.config_file).connections[load.connection]
    assert connection.write
    return writing_dialect(load.connection, connection), dialects.parse_url(connection.write.url)


def slices_of(session: Session) -> int:
    """Return how many files of a statement the target loads side by side, or what is taken for that where it does not say."""
    return session.loading.count_slices() or UNKNOWN_SLICES


def folder_of(pipeline: str, schema: str) -> str:
    """Return the folder of the files of a pipeline's target, below that of the connection; no other target has it."""
    return f"pipeline-{hashlib.sha256(f'{pipeline}/{schema}'.encode()).hexdigest()[:16]}"


@contextmanager
def files_removed(session: Session, folder: str) -> Iterator[None]:
    """Delete all of a folder after the block."""
    try:
        yield
    finally:
        remove_files(session, folder)


def remove_files(session: Session, folder: str) -> None:
    """Delete files that were copied, or that a process left behind which was killed; if that fails, a later one deletes them."""
    try:
        if count := session.loading.remove_stored(folder):
            log.debug("%d files below %s were deleted", count, folder, extra={"action": "files_deleted"})
    except AuditorError as error:
        log.warning("files below %s remain: %s", folder, error, extra={"action": "files_remain"})
