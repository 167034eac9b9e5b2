"""Parts: files with the events of one table and schema, in the order of the stream.

A part is a Parquet file of `events.ARROW_SCHEMA`, named by its table and first position, so that a batch that is replayed after a crash
writes the same file again. It is written under another name, and takes its place at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.errors import PartDamaged, StagingFailed, StagingFull
from auditor.model import Part
from auditor.pipeline.events import ARROW_SCHEMA

FOLDER_MODE, FILE_MODE = 0o700, 0o600

ENDING, UNFINISHED = ".parquet", ".unfinished"

CONSTANT_COLUMNS = ["kind", "database", "table", "schema_id"]
"""Columns with few values, which take next to no room in a part."""

ROWS_PER_GROUP = 65_536
"""Rows of a row group, which a reader holds in memory."""

ROWS_AT_ONCE = 16_384
"""Rows that a reader hands on together: what is made of them takes several times their memory."""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that was written, and the JSON of its schema if its batch announced it."""

    part: Part
    schema_json: str | None = None


def write_parts(root: Path, events: pa.Table) -> list[WrittenPart]:
    """Write the events of one table, in any order, as parts below ``root``, and return these: one for each stretch of one schema.

    Raises StagingFull on a full disk, StagingFailed if the folder cannot be written.
    """
    if not events.num_rows:
        return []
    events = events.select(ARROW_SCHEMA.names).sort_by([("position", "ascending"), ("row", "ascending")]).combine_chunks()
    announced = events.filter(pc.equal(events["kind"], "schema"))
    bodies = {row["schema_id"]: row["after"][0] for row in announced.select(["schema_id", "after"]).to_pylist()}
    rows = events.filter(pc.not_equal(events["kind"], "schema"))
    written = [WrittenPart(_write(root, stretch), bodies.pop(stretch["schema_id"][0].as_py(), None)) for stretch in _stretches(rows)]
    table = f"{events['database'][0]}.{events['table'][0]}"
    empty = [(schema_id, body) for schema_id, body in bodies.items() if all(one.part.schema_id != schema_id for one in written)]
    time = events["time"][-1].as_py()
    return written + [WrittenPart(Part(table, 0, 0, 0, 0, schema_id, "", time), body) for schema_id, body in empty]


def read_part(root: Path, part: Part, after: int) -> Iterator[pa.RecordBatch]:
    """Yield the events of a part that stand behind a position, in order.

    Raises PartDamaged if the file is not the one that the manifest lists, StagingFailed if it cannot be read.
    """
    try:
        with (root / part.path).open("rb") as handle:  # one handle: a replay may replace the file meanwhile
            file = pq.ParquetFile(handle)
            if file.metadata.num_rows != part.rows:
                raise PartDamaged(f"the part {root / part.path} has {file.metadata.num_rows} rows, and {part.rows} in the manifest")
            last = 0
            for batch in file.iter_batches(ROWS_AT_ONCE):
                last = pc.max(batch["position"]).as_py()
                found = batch.filter(pc.greater(batch["position"], after))
                if found.num_rows:
                    yield found
            if last != part.last:
                raise PartDamaged(f"the part {root / part.path} ends at another position than in the manifest")
    except FileNotFoundError as error:
        raise StagingFailed(f"the part {root / part.path} is missing; check that this process reaches the staging's folder") from error
    except (pa.ArrowException, OSError) as error:
        raise StagingFailed(f"the part {root / part.path} cannot be read: {error}") from error


def sweep(root: Path, listed: Iterable[str]) -> list[Path]:
    """Delete the files below ``root`` that no manifest lists, and return them: what a batch left that was not completed.

    Call it only while nothing is staged. Raises StagingFailed.
    """
    known = set(listed)
    try:
        orphans = [
            path for path in sorted(root.glob("*/*")) if path.suffix in (ENDING, UNFINISHED) and str(path.relative_to(root)) not in known
        ]
        delete(orphans)
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be swept: {error}") from error
    return orphans


def delete(paths: Iterable[Path]) -> None:
    """Delete files that may be gone already. Raises OSError."""
    for path in paths:
        path.unlink(missing_ok=True)


def make_folder(root: Path) -> None:
    """Create the staging's folder, if there is none, so that only its owner can read it. Raises StagingFailed."""
    try:
        root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise StagingFailed(
            f"the staging's folder {root} cannot be created: {error.strerror}; create it, or correct staging: path"
        ) from error


def _stretches(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the runs of equal schema ids of sorted events."""
    if not rows.num_rows:
        return
    ids = rows["schema_id"].combine_chunks()
    ends = [*pc.indices_nonzero(pc.not_equal(ids[1:], ids[:-1])).to_pylist(), rows.num_rows - 1]
    start = 0
    for end in ends:
        yield rows.slice(start, end + 1 - start)
        start = end + 1


def _write(root: Path, rows: pa.Table) -> Part:
    table = f"{rows['database'][0]}.{rows['table'][0]}"
    first, last = rows["position"][0].as_py(), rows["position"][-1].as_py()
    path = Path(quote(table, safe="."), f"{first:019d}{ENDING}")
    make_folder(root)
    unfinished = (root / path).with_suffix(f".{os.getpid()}{UNFINISHED}")
    try:
        unfinished.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, FILE_MODE), "wb") as handle:
            pq.write_table(rows, handle, row_group_size=ROWS_PER_GROUP, compression="zstd", use_dictionary=CONSTANT_COLUMNS)
            handle.flush()
            os.fsync(handle.fileno())
            size = handle.tell()
        unfinished.replace(root / path)
        _sync(unfinished.parent)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StagingFull(f"the disk of the staging's folder {root} is full; free some space there") from error
        raise StagingFailed(f"the staging's folder {root} cannot be written: {error.strerror or error}") from error
    return Part(table, first, last, rows.num_rows, size, rows["schema_id"][0].as_py(), str(path), rows["time"][-1].as_py())


def _sync(folder: Path) -> None:
    """Let the names in a folder survive a power failure."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
