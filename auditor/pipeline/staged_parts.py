"""Parts: files with the events of one table and schema, in the order of the stream.

A part is a Parquet file of `events.ARROW_SCHEMA`, named by its table and first position, so that a batch that is replayed after a crash
writes the same file again. It is written under another name, and takes its place at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import IO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.errors import PartDamaged, StagingFailed
from auditor.model import Part
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import UNFINISHED, Folder

ENDING = ".parquet"

LONGEST_FOLDER = 120
"""Characters of a folder's name, of which file systems take 255 bytes."""

ROWS_PER_GROUP = 65_536
"""Rows of a row group, which a reader holds in memory."""

PIECE = 1 << 20
"""Bytes that are hashed at once."""

ROWS_AT_ONCE = 16_384
"""Rows that a reader hands on together: what is made of them takes several times their memory."""


def read_part(root: Folder, part: Part, after: int) -> Iterator[pa.RecordBatch]:
    """Yield the events of a part that stand behind a position, in order.

    Raises PartDamaged if the file is not the one that the manifest lists, StagingFailed if it cannot be read.
    """
    try:
        with root.open(part.path) as handle:  # one handle: a replay may replace the file meanwhile
            if not _is_whole(handle, part):
                raise PartDamaged(f"the part {root}/{part.path} has other bytes than were written")
            file = pq.ParquetFile(handle)
            if file.metadata.num_rows != part.rows:
                raise PartDamaged(f"the part {root}/{part.path} has {file.metadata.num_rows} rows, and {part.rows} in the manifest")
            if not file.schema_arrow.equals(ARROW_SCHEMA):
                raise PartDamaged(f"the part {root}/{part.path} has other columns than a part has")
            last = 0
            for batch in file.iter_batches(ROWS_AT_ONCE):
                last = pc.max(batch["position"]).as_py()
                found = batch.filter(pc.greater(batch["position"], after))
                if found.num_rows:
                    yield found
            if last != part.last:
                raise PartDamaged(f"the part {root}/{part.path} ends at another position than in the manifest")
    except FileNotFoundError as error:
        raise PartDamaged(f"the part {root}/{part.path} is missing; check that this process reaches the staging's folder") from error
    except pa.ArrowException as error:
        raise PartDamaged(f"the part {root}/{part.path} cannot be read: {error}") from error
    except OSError as error:
        raise StagingFailed(f"the part {root}/{part.path} cannot be read: {error}") from error


def folder_name(table: str) -> str:
    """Return the name of the folder of a table's files; a long one is cut, and told apart by a hash behind a + that no other name has."""
    name = quote(table, safe=".")
    if len(name) <= LONGEST_FOLDER:
        return name
    return f"{name[: LONGEST_FOLDER - 20]}+{hashlib.sha256(table.encode()).hexdigest()[:16]}"


def check_part(root: Folder, part: Part) -> str:
    """Return what is wrong with the file of a part: that it is missing, or damaged; '' if nothing is. Raises StagingFailed."""
    try:
        with root.open(part.path) as handle:
            return "" if _is_whole(handle, part) else f"the part {part.path} has other bytes than were written"
    except FileNotFoundError:
        return f"the part {part.path} is missing"
    except OSError as error:
        raise StagingFailed(f"the part {root}/{part.path} cannot be read: {error}") from error


def _is_whole(handle: IO[bytes], part: Part) -> bool:
    """Return whether a file has the bytes that were written; True if no checksum of them is known. It then stands at its beginning."""
    if not part.checksum:
        return True
    hashed = hashlib.sha256()
    while piece := handle.read(PIECE):
        hashed.update(piece)
    handle.seek(0)
    return hashed.hexdigest() == part.checksum


def sweep(root: Folder, listed: Iterable[str]) -> list[str]:
    """Delete the files below ``root`` that no manifest lists, and return their paths: what a batch left that was not completed.

    Call it only while nothing is staged. Raises StagingFailed.
    """
    known = set(listed)
    try:
        orphans = sorted(
            path for path in root.names() if path.endswith((ENDING, UNFINISHED)) and path.count("/") == 1 and path not in known
        )
        root.delete(orphans)
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be swept: {error}") from error
    return orphans
