"""Staged events: a file for each task, and in it the parts, each with the events of one table and schema in the order of the stream.

A file is an Arrow stream of `events.ARROW_SCHEMA`. Its record batches are the blocks of parts, and the manifest says which of them a part
has, so that a part is read without the others. A file is named by the parts in it: a batch that is replayed after a crash writes the same
file again. It is written under another name, and takes its place at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import PartDamaged, StagingFailed
from auditor.model import Part
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import Folder

BATCHES = "batches"
"""The folder of the files; those of tables have a point in their names."""

ENDING = ".1.arrows"
"""How the names of the files end. The number is that of their format: those of another one are not read."""

LONGEST_FOLDER = 120
"""Characters of a folder's name, of which file systems take 255 bytes."""

ROWS_PER_GROUP = 65_536
"""Rows of a block, which a reader holds in memory."""

HELD_BYTES = 32 << 20
"""Bytes of a part up to which a reader keeps the blocks that it has checked; of a larger one it reads them again."""

ROWS_AT_ONCE = 16_384
"""Rows that a reader hands on together: what is made of them takes several times their memory."""


MOST_AHEAD = 16 << 20
"""Bytes of a file that are read at once for parts of several tables."""


class Blocks(Protocol):
    """Where blocks of files are read: a folder, or what was read ahead of one."""

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return so many bytes of a file, or those that it has there. Raises as `Folder.read` does."""


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """What was read at once of files of a folder, which is asked for everything else."""

    folder: Folder
    spans: Mapping[str, tuple[int, bytes]]
    """By path where the bytes begin, and these."""

    def __str__(self) -> str:
        return str(self.folder)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return so many bytes of a file."""
        begin, content = self.spans.get(path, (offset, b""))
        found = content[offset - begin : offset - begin + size] if offset >= begin else b""
        return found if len(found) == size else self.folder.read(path, offset, size)


def read_ahead(root: Folder, wanted: Iterable[Part]) -> ReadAhead:
    """Return the blocks of parts, those of one file read by one request where they are most of what lies between them.

    What cannot be read is left to who asks for it.
    """
    by_path: dict[str, list[Part]] = {}
    for part in wanted:
        by_path.setdefault(part.path, []).append(part)
    spans = dict[str, tuple[int, bytes]]()
    for path, listed in by_path.items():
        begin, end = span_of(listed)
        if len(listed) > 1 and end - begin <= min(MOST_AHEAD, 2 * sum(part.bytes for part in listed)):
            with suppress(OSError, PartDamaged):
                spans[path] = begin, root.read(path, begin, end - begin)
    return ReadAhead(root, spans)


def read_part(root: Blocks, part: Part, after: int) -> Iterator[pa.RecordBatch]:
    """Yield the events of a part that stand behind a position, in order.

    Raises PartDamaged if its blocks are not those that the manifest lists, StagingFailed if they cannot be read.
    """
    try:
        rows = last = 0
        for block in checked_blocks(root, part):
            events = pa.ipc.read_record_batch(block, ARROW_SCHEMA)
            for start in range(0, events.num_rows, ROWS_AT_ONCE):
                piece = events.slice(start, ROWS_AT_ONCE)
                rows, last = rows + piece.num_rows, piece["position"][-1].as_py()
                found = piece if part.first > after else piece.filter(pc.greater(piece["position"], after))
                if found.num_rows:
                    yield found
        if (rows, last) != (part.rows, part.last):
            held, listed = (f"{count:,} rows up to position {place}" for count, place in ((rows, last), (part.rows, part.last)))
            raise PartDamaged(f"{_named(root, part)} has {held}, and {listed} in the manifest")
    except FileNotFoundError as error:
        raise PartDamaged(f"{_named(root, part)} is missing; check that this process reaches the staging's folder") from error
    except pa.ArrowException as error:
        raise PartDamaged(f"{_named(root, part)} cannot be read: {error}") from error
    except OSError as error:
        raise StagingFailed(f"{_named(root, part)} cannot be read: {error}") from error


def _named(root: Blocks | str, part: Part) -> str:
    return f"the part of {part.table} in {root}/{part.path}" if root else f"the part of {part.table} in {part.path}"


def checked_blocks(root: Blocks, part: Part) -> Iterator[bytes]:
    """Yield the blocks of a part, once all of them were found to be as they were written. Raises PartDamaged and OSError."""
    if not part.path.endswith(ENDING):
        raise PartDamaged(f"{_named(root, part)} has a format that this version does not read")
    held: list[bytes] = []
    hashed = hashlib.sha256()
    for offset, size in part.blocks:
        block = root.read(part.path, offset, size)
        hashed.update(block)
        if part.bytes <= HELD_BYTES:
            held.append(block)
    if hashed.hexdigest() != part.checksum:
        raise PartDamaged(f"{_named(root, part)} has other bytes than were written")
    yield from held or (root.read(part.path, offset, size) for offset, size in part.blocks)


def read_whole_parts(root: Folder, path: str, listed: Sequence[Part]) -> Iterator[tuple[Part, list[bytes]]]:
    """Yield the parts of a file, of those that are listed, whose blocks are as they were written, and these; they are read by one request.

    Raises StagingFailed.
    """
    begin, end = span_of(listed)
    try:
        content = root.read(path, begin, end - begin)
    except (FileNotFoundError, PartDamaged):
        return
    except OSError as error:
        raise StagingFailed(f"the staged file {root}/{path} cannot be read: {error}") from error
    for part in listed:
        blocks = [content[offset - begin : offset - begin + size] for offset, size in part.blocks]
        if path.endswith(ENDING) and hashlib.sha256(b"".join(blocks)).hexdigest() == part.checksum:
            yield part, blocks


def span_of(listed: Sequence[Part]) -> tuple[int, int]:
    """Return between which bytes of their file the blocks of parts are."""
    blocks = [block for part in listed for block in part.blocks]
    return min(offset for offset, _ in blocks), max(offset + size for offset, size in blocks)


def folder_name(table: str) -> str:
    """Return the name of the folder of a table's files; a long one is cut, and told apart by a hash behind a + that no other name has."""
    name = quote(table, safe=".")
    if len(name) <= LONGEST_FOLDER:
        return name
    return f"{name[: LONGEST_FOLDER - 20]}+{hashlib.sha256(table.encode()).hexdigest()[:16]}"


def check_part(root: Folder, part: Part) -> str:
    """Return what is wrong with the file of a part: that it is missing, or damaged; '' if nothing is. Raises StagingFailed."""
    try:
        for _ in checked_blocks(root, part):
            break
    except FileNotFoundError:
        return f"{_named('', part)} is missing"
    except PartDamaged as error:
        return str(error)
    except OSError as error:
        raise StagingFailed(f"{_named(root, part)} cannot be read: {error}") from error
    return ""


def sweep(root: Folder, listed: Iterable[str]) -> list[str]:
    """Delete the files below ``root`` that no manifest lists, and return their paths: what a batch left that was not completed.

    Call it only while nothing is staged. Raises StagingFailed.
    """
    known = set(listed)
    try:
        orphans = sorted(path for path in root.names() if path.startswith(f"{BATCHES}/") and path not in known)
        root.delete(orphans)
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be swept: {error}") from error
    return orphans
