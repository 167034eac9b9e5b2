"""What a task writes beside its parts: of each row before and after the events of a part its partition, position and hash.

A file of sums belongs to one part and one epoch, and is named by both; a replay writes the same file again. It is written for every part
that a task writes while it knows the epoch, also for one whose texts could not be computed: then it holds the reason.
"""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import AuditorError, LiveSummariesWrong, StagingFailed, StagingFull, ValueRefused
from auditor.model import Part
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.live.images import Images, columns_of, hash_rows, joined, no_images
from auditor.pipeline.live.published_epochs import PublishedEpoch, published
from auditor.pipeline.row_expressions import RowFilter
from auditor.pipeline.staged_parts import folder_name

ADDING, REMOVING = ["insert", "update"], ["delete", "update"]

AGAIN = ["refresh"]
"""Events that say what a row holds, and change nothing in the sums: a ledger sees them as a row that became what it was."""

SHAPE, REFUSED = b"auditor.shape", b"auditor.refused"

DIGEST_BYTES = 32
"""The SHA-256 of a file's content comes before it."""


SUMS = ".sums"
"""How the names of files of sums end."""


def sums_path(part: Part, epoch: str) -> str:
    """Return the path of the sums of a part for an epoch."""
    return f"{folder_name(part.table)}/{part.first:019d}.{epoch}{SUMS}"


@dataclass(slots=True)
class _Epoch:
    """What one task found for an epoch."""

    published_epoch: PublishedEpoch
    images: list[Images] = field(default_factory=list)
    shapes: dict[str, str] = field(default_factory=dict)
    """Digest of the compared columns by id of the schema; '' for a schema where one is missing."""
    filters: dict[str, RowFilter | None] = field(default_factory=dict)
    refused: str = ""


class TaskSums:
    """The sums of one task: it is given each batch of events before anything is left out of it, and writes files when parts are there."""

    def __init__(self, root: str) -> None:
        self._root = folder_at(root)
        self._epochs = [_Epoch(epoch) for epoch in published(self._root)]

    def take(self, schema: TableSchema, events: pa.RecordBatch, tables: Collection[str]) -> None:
        """Take events of a source's table, all of one schema, for the tables of the stream into which they go.

        Which rows a table has says the filter of the audit, which is that of the table's route.
        """
        for epoch in self._epochs:
            if epoch.published_epoch.table not in tables or epoch.refused:
                continue
            try:
                _take(epoch, schema, events)
            except (AuditorError, pa.ArrowException, ValueError, OverflowError) as error:
                epoch.refused = str(error) if isinstance(error, AuditorError) else f"an unexpected {type(error).__name__} in its texts"

    def write(self, parts: Iterable[Part]) -> None:
        """Write the sums of the parts that the task wrote. Raises StagingFailed."""
        listed = [part for part in parts if part.rows]
        for epoch in self._epochs:
            images = joined(epoch.images) if epoch.images else None
            for part in listed:
                if part.table != epoch.published_epoch.table:
                    continue
                chosen = None
                if images is not None:
                    chosen = images.chosen((images.position >= part.first) & (images.position <= part.last))
                shapes = sorted(set(epoch.shapes.values()))
                refused = epoch.refused or ("a compared column was changed in the midst of it" if len(shapes) > 1 else "")
                content = _content(
                    chosen if chosen is not None else no_images(epoch.published_epoch.plan), shapes[0] if shapes else "", refused
                )
                _put(self._root, sums_path(part, epoch.published_epoch.id), content)


def _take(epoch: _Epoch, schema: TableSchema, events: pa.RecordBatch) -> None:
    plan, names = epoch.published_epoch.plan, [column.name for column in schema.columns]
    missing = [column.name for column in plan.columns if column.name not in names]
    if missing:
        raise ValueRefused(f"the source's table no longer has the column {missing[0]}, which is compared")
    indexes = [names.index(column.name) for column in plan.columns]
    epoch.shapes[schema.id] = shape_of(schema, indexes)
    if schema.id not in epoch.filters:
        epoch.filters[schema.id] = RowFilter(epoch.published_epoch.where, schema) if epoch.published_epoch.where else None
    again = AGAIN if epoch.published_epoch.ledger else []
    for image, kinds, signs in (("before", REMOVING, (-1,)), ("after", ADDING, (1,)), ("after", again, (-1, 1))):
        chosen = events.filter(pc.is_in(events["kind"], pa.array(kinds, pa.string())))
        if not chosen.num_rows:
            continue
        position, row = (chosen[name].to_numpy(zero_copy_only=False) for name in ("position", "row"))
        if (condition := epoch.filters[schema.id]) is not None:
            read = dict(zip(condition.indexes, columns_of(chosen[image], len(names), condition.indexes), strict=True))
            passed = condition.select(read, chosen.num_rows)
            which = passed.to_numpy(zero_copy_only=False)
            chosen, position, row = chosen.filter(passed), position[which], row[which]
        if not len(position):
            continue
        columns = columns_of(chosen[image], len(names), indexes)
        partition, x, hashes = hash_rows(columns, plan)
        epoch.images += [Images(position, row, np.full(len(position), sign, np.int64), partition, x, hashes) for sign in signs]


def shape_of(schema: TableSchema, indexes: list[int]) -> str:
    """Return a digest of the names, types and character sets of some columns."""
    text = "|".join(f"{schema.columns[index].name} {schema.columns[index].type} {schema.columns[index].charset}" for index in indexes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _content(images: Images, shape: str, refused: str) -> bytes:
    columns = {
        name: pa.array(getattr(images, name), kind)
        for name, kind in (("position", pa.int64()), ("row", pa.int64()), ("sign", pa.int8()), ("partition", pa.int64()), ("x", pa.int64()))
    }
    columns |= {f"hash_{i}": pa.array(images.hashes[:, i], pa.int64()) for i in range(images.hashes.shape[1])}
    table = pa.table(columns).replace_schema_metadata({SHAPE: shape, REFUSED: refused})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    return hashlib.sha256(content).digest() + content


@dataclass(frozen=True, slots=True)
class StagedSums:
    """The sums of a part for an epoch."""

    images: Images
    shape: str
    refused: str


def read_sums(root: Folder, part: Part, epoch: str) -> StagedSums:
    """Return the sums of a part for an epoch.

    Raises LiveSummariesWrong if there are none, or they are damaged, and StagingFailed if they cannot be read.
    """
    path = sums_path(part, epoch)
    try:
        content = root.get(path)
    except FileNotFoundError as error:
        raise LiveSummariesWrong(f"events of {part.table} were staged without their sums, {path}") from error
    except OSError as error:
        raise StagingFailed(f"the sums {root}/{path} cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
        raise LiveSummariesWrong(f"the sums {root}/{path} are damaged")
    table = pa.ipc.open_file(pa.BufferReader(content[DIGEST_BYTES:])).read_all()
    numbers = {name: table[name].to_numpy().astype(np.int64) for name in table.column_names}
    hashes = np.column_stack([numbers.pop(name) for name in list(numbers) if name.startswith("hash_")])
    metadata = table.schema.metadata
    return StagedSums(Images(**numbers, hashes=hashes), metadata[SHAPE].decode(), metadata[REFUSED].decode())


def _put(root: Folder, path: str, content: bytes) -> None:
    try:
        root.put(path, content)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StagingFull(f"the disk of the staging's folder {root} is full; free some space there") from error
        raise StagingFailed(f"the staging's folder {root} cannot be written: {error.strerror or error}") from error
