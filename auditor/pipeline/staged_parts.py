"""Parts: files with the events of one table and schema, in the order of the stream.

A part is a Parquet file of `events.ARROW_SCHEMA`, named by its table and first position, so that a batch that is replayed after a crash
writes the same file again. It is written under another name, and takes its place at once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.errors import PartDamaged, StagingFailed
from auditor.model import Part
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.s3_folder import Folder, S3Folder

FOLDER_MODE, FILE_MODE = 0o700, 0o600

ENDING, UNFINISHED = ".parquet", ".unfinished"

LONGEST_FOLDER = 120
"""Characters of a folder's name, of which file systems take 255 bytes."""

ROWS_PER_GROUP = 65_536
"""Rows of a row group, which a reader holds in memory."""

HELD_BYTES = 32 << 20
"""Bytes of a part of S3 up to which a reader holds it in memory."""

PIECE = 1 << 20
"""Bytes that are hashed at once."""

ROWS_AT_ONCE = 16_384
"""Rows that a reader hands on together: what is made of them takes several times their memory."""


def read_part(root: Folder, part: Part, after: int) -> Iterator[pa.RecordBatch]:
    """Yield the events of a part that stand behind a position, in order.

    Raises PartDamaged if the file is not the one that the manifest lists, StagingFailed if it cannot be read.
    """
    try:
        with _opened(root, part.path) as handle:  # one handle: a replay may replace the file meanwhile
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


def _own_file(path: Path) -> IO[bytes]:
    """Open a file for reading that is one itself: no link to another one, and nothing that a reader would wait for."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise PartDamaged(f"the part {path} is a link to another file; find out who may write there") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise PartDamaged(f"the part {path} is no file; find out who may write there")
    return os.fdopen(number, "rb")


def folder_name(table: str) -> str:
    """Return the name of the folder of a table's files; a long one is cut, and told apart by a hash behind a + that no other name has."""
    name = quote(table, safe=".")
    if len(name) <= LONGEST_FOLDER:
        return name
    return f"{name[: LONGEST_FOLDER - 20]}+{hashlib.sha256(table.encode()).hexdigest()[:16]}"


def check_part(root: Folder, part: Part) -> str:
    """Return what is wrong with the file of a part: that it is missing, or damaged; '' if nothing is. Raises StagingFailed."""
    try:
        with _opened(root, part.path) as handle:
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
        found = root.names() if isinstance(root, S3Folder) else (str(path.relative_to(root)) for path in root.glob("*/*"))
        orphans = sorted(path for path in found if path.endswith((ENDING, UNFINISHED)) and path.count("/") == 1 and path not in known)
        delete(root, orphans)
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be swept: {error}") from error
    return orphans


def delete(root: Folder, paths: Iterable[str]) -> None:
    """Delete files that may be gone already. Raises OSError."""
    if isinstance(root, S3Folder):
        root.delete(paths)
        return
    for path in paths:
        (root / path).unlink(missing_ok=True)


def make_folder(root: Folder) -> None:
    """Create the staging's folder, if there is none, so that only its owner can read it; check that of S3. Raises StagingFailed."""
    try:
        if isinstance(root, S3Folder):
            root.check()
            return
        root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise StagingFailed(
            f"the staging's folder {root} cannot be created: {error.strerror}; create it, or correct staging: path"
        ) from error


def _opened(root: Folder, path: str) -> IO[bytes]:
    """Return a part's file, opened; a large one of S3 as a copy on the disk."""
    if not isinstance(root, S3Folder):
        return _own_file(root / path)
    with ExitStack() as failed:
        copy = failed.enter_context(tempfile.SpooledTemporaryFile(HELD_BYTES))
        root.copy_to(path, copy)
        copy.seek(0)
        failed.pop_all()
    return copy
