"""Join the small files that batches leave, those of a minute into one over all tables.

Which files are joined the stream alone decides: its clock, which is the latest commit so far, passes a multiple of ``TICK``, and what was
staged before is joined. So a replay writes the same files again. Blocks are copied as they are, each part once in its life; where a part
is, only the manifest says, so that it stays the same part for targets, segments and sums.

Files are read, written and listed in this order, and deleted later: whatever ends it in between leaves files that are swept.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from auditor.model import Part
from auditor.pipeline.emptied_files import EmptiedFiles
from auditor.pipeline.folders import Folder
from auditor.pipeline.part_writer import write_copies
from auditor.pipeline.staged_parts import read_whole_parts, span_of
from auditor.store import Store, parts, pipelines

log = logging.getLogger(__name__)

TICK = 60.0
"""Seconds: what was staged between two multiples of it, by the stream's clock, is joined."""

SMALL_BYTES = 16 << 20
"""Bytes up to which a file is joined with others; it is held in memory."""

FILE_BYTES = 64 << 20
"""Bytes of a joined file at most."""

PARTS_AT_ONCE = 20_000
"""Parts that are read from the manifest at once; a minute that has more becomes several files."""


LISTED_AT_ONCE = 1_000
"""Parts that are listed in another file by one transaction of the store."""


@dataclass(frozen=True, slots=True)
class _File:
    """A staged file, with those of its parts that were not joined yet, in their order in the file."""

    path: str
    parts: tuple[Part, ...]

    @property
    def last(self) -> int:
        """The position at which it ends."""
        return max(part.last for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes that are read of it."""
        begin, end = span_of(self.parts)
        return end - begin


@dataclass(slots=True)
class Joining:
    """Joins the files of a pipeline's batches, again and again; only the process does so that stages them."""

    store: Store
    name: str
    root: Folder
    stopping: Callable[[], bool] = lambda: False
    emptied: EmptiedFiles = field(init=False)
    """Files whose parts are in joined ones."""

    def __post_init__(self) -> None:
        self.emptied = EmptiedFiles(self.store, self.name, self.root)

    def join(self) -> int:
        """Join the files of all ticks that the stream has passed, and return how many were copied into others.

        Damaged parts stay where they are; who reads one stages it again. Raises StoreError, StagingFailed and StagingFull.
        """
        self.emptied.delete()
        joined, is_done = 0, False
        while not is_done:
            after = pipelines.get_pipeline(self.store, self.name).joined_through
            listed = parts.list_parts_behind(self.store, self.name, after, PARTS_AT_ONCE)
            is_done = len(listed) < PARTS_AT_ONCE
            for files in _passed(_files(listed), is_done):
                if self.stopping():
                    return joined
                joined += self._join(files)
        return joined

    def _join(self, files: Sequence[_File]) -> int:
        """Join the files of one tick, and list them; return how many have no part any more."""
        chosen = list(_chosen(files))
        moved = [one for some in chosen for one in self._copy(some)]
        for start in range(0, len(moved), LISTED_AT_ONCE):  # so that batches and merges are listed in between
            parts.replace_files(self.store, self.name, moved[start : start + LISTED_AT_ONCE])
        parts.replace_files(self.store, self.name, [], files[-1].last)
        old_paths, new_paths = {file.path for some in chosen for file in some}, {new.path for _, new in moved}
        listed = parts.find_listed(self.store, self.name, old_paths | new_paths)
        self.emptied.add((old_paths | new_paths) - listed)  # new ones too, where all parts were deleted meanwhile
        tried = {(part.table, part.first) for some in chosen for file in some for part in file.parts}
        left = [part for part in parts.list_parts_of(self.store, self.name, old_paths & listed) if (part.table, part.first) in tried]
        if left:
            kept, sentence = (
                sorted({part.path for part in left}),
                "%s: %d parts in %s are damaged or missing, and stay until they are restaged",
            )
            extra = {"action": "not_joined", "pipeline": self.name, "files": len(kept), "parts": len(left)}
            log.warning(sentence, self.name, len(left), ", ".join(kept), extra=extra)
        if moved:
            joined, size = len(old_paths - listed), parts.totals(new for _, new in moved)[1]
            extra = {"action": "joined", "pipeline": self.name, "files": joined, "parts": len(moved), "bytes": size}
            log.info("%s: %d files were joined into %d", self.name, joined, len(new_paths), extra=extra)
        return len(old_paths - listed)

    def _copy(self, files: Sequence[_File]) -> list[tuple[Part, Part]]:
        """Copy the parts of files into a new one, which a replay writes again; return each, and as it is there."""
        listed = "\n".join(f"{part.table} {part.first} {part.schema_id}" for file in files for part in file.parts)
        first = min(part.first for file in files for part in file.parts)
        name = f"{first:019d}_{hashlib.sha256(listed.encode()).hexdigest()[:12]}"
        return write_copies((one for file in files for one in read_whole_parts(self.root, file.path, file.parts)), name, self.root)


def _files(listed: Sequence[Part]) -> list[_File]:
    """Return the files of parts, in the order in which they end."""
    found: dict[str, list[Part]] = {}
    for part in listed:
        found.setdefault(part.path, []).append(part)
    files = (_File(path, tuple(sorted(some, key=lambda part: part.blocks))) for path, some in found.items())
    return sorted(files, key=lambda file: (file.last, file.path))


def _passed(files: Sequence[_File], are_all: bool) -> list[list[_File]]:
    """Return the files of each tick that the stream has passed; if these are not all of its files, of one that it has passed in part."""
    ticks: list[list[_File]] = []
    clock = current = 0.0
    for file in files if are_all or len(files) == 1 else files[:-1]:  # of the last one there may be more parts
        clock = max(clock, *(part.time.timestamp() // TICK for part in file.parts))
        if not ticks or clock > current:
            ticks.append([])
        current = clock
        ticks[-1].append(file)
    return ticks if len(ticks) == 1 and not are_all else ticks[:-1]


def _chosen(files: Sequence[_File]) -> Iterator[list[_File]]:
    """Yield the small files that become one, of those of a tick."""
    some: list[_File] = []
    size = 0
    for file in files:
        if file.size > SMALL_BYTES:
            continue
        if size + file.size > FILE_BYTES:
            yield from [some] if len(some) > 1 else []
            some, size = [], 0
        some.append(file)
        size += file.size
    if len(some) > 1:
        yield some
