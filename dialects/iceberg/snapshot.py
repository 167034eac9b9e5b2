"""One snapshot of an Iceberg table: its columns, its files, and the files that say which of their rows are deleted.

The metadata are read by pyiceberg. What changes what the files mean and is not read here is refused by name.

https://iceberg.apache.org/spec/
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dialects import errors

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

VERSIONS = (1, 2, 3)
"""Versions of the format that are read."""

ON_SPARK = "audit it through Spark (docs/spark-lakes.md)"

PATH_ID, POSITION_ID = 2147483546, 2147483545
"""The ids of the columns of files of positions. https://iceberg.apache.org/spec/#reserved-field-ids"""

VECTOR_MAGIC = bytes.fromhex("d1d33964")
"""What a deletion vector begins with: https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type"""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of rows."""

    path: str
    """Where it is, as the table's metadata have it."""
    size: int
    rows: int
    sequence: int
    """The number of the commit that its rows are of."""
    spec: int
    """By which of the table's partition specs its rows were put into one file."""
    partition: tuple[Any, ...]
    """The values of that spec's fields."""
    entry: DataFile
    """As pyiceberg has it."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that says which rows of other files are deleted."""

    path: str
    size: int
    rows: int
    sequence: int
    spec: int
    partition: tuple[Any, ...]
    kind: Literal["positions", "vector", "equality"]
    equality_ids: tuple[int, ...] = ()
    """The ids of the columns whose values are those of the deleted rows."""
    referenced: str = ""
    """The only file whose rows are deleted; empty if there may be others."""
    offset: int = 0
    """Where a vector begins in its file, and ``length`` how many bytes it has."""
    length: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of a table, or a table that has none yet."""

    version: int | None
    schema: Schema
    files: Sequence[LakeFile]
    deletes: Sequence[DeleteFile]

    @property
    def rows(self) -> int | None:
        """The number of rows as the metadata have it; None where files of deletes hide some."""
        return None if self.deletes else sum(file.rows for file in self.files)


def read_snapshot(table: Table, name: str, version: int | None, wanted: int | None) -> Snapshot:
    """Return the snapshot of this id, or the table without rows if that is None; ``wanted`` is the id that a person asked for.

    The columns of a wanted snapshot are those that it was written with, else the table's current ones.
    """
    metadata = table.metadata
    if metadata.format_version not in VERSIONS:
        raise errors.StatementRefused(f"{name} has version {metadata.format_version} of Iceberg's format, which is not read; {ON_SPARK}")
    if any(key.startswith("encryption.") for key in metadata.properties):
        raise errors.StatementRefused(f"{name} is encrypted, which is not read; {ON_SPARK}")
    schema = table.schema()
    if version is None:
        return Snapshot(None, schema, [], [])
    snapshot = metadata.snapshot_by_id(version)
    if snapshot is None:
        raise errors.NoSuchObject(f"{name} has no snapshot {version} any more; choose one that is not expired, or the current one")
    if wanted is not None and snapshot.schema_id is not None:
        schema = table.schemas()[snapshot.schema_id]
    files: list[LakeFile] = []
    deletes: list[DeleteFile] = []
    for manifest in snapshot.manifests(table.io):
        for sequence, entry in _entries(table.io, manifest):
            if entry.key_metadata is not None:
                raise errors.StatementRefused(f"{name} has encrypted files, which are not read; {ON_SPARK}")
            values = tuple(entry.partition[place] for place in range(len(entry.partition)))
            about: dict[str, Any] = {
                "path": entry.file_path, "size": entry.file_size_in_bytes, "rows": entry.record_count, "sequence": sequence,
                "spec": manifest.partition_spec_id, "partition": values,
            }  # fmt: skip
            if entry.content.name == "DATA":
                if entry.file_format.name != "PARQUET":
                    raise errors.StatementRefused(f"{name} has files of {entry.file_format.name}, which are not read; {ON_SPARK}")
                files.append(LakeFile(**about, entry=entry))
            else:
                deletes.append(_delete_file(name, about, entry))
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths):
        raise errors.StatementRefused(f"{name} lists a file twice, whose rows other readers count twice; rewrite its files")
    return Snapshot(version, schema, files, deletes)


def _entries(io: FileIO, manifest: Any) -> Iterator[tuple[int, DataFile]]:
    """Yield what a manifest lists of files that are there, each with its data sequence number.

    pyiceberg's own method reads the second version's fields, and so leaves out where a deletion vector is.
    """
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus

    types: Any = {-1: ManifestEntry, 2: DataFile}
    enums: Any = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
    with AvroFile[ManifestEntry](io.new_input(manifest.manifest_path), MANIFEST_ENTRY_SCHEMAS[3], types, enums) as entries:
        for entry in entries:
            if entry.status != ManifestEntryStatus.DELETED:
                own = entry.sequence_number  # https://iceberg.apache.org/spec/#sequence-number-inheritance
                entry.data_file.spec_id = manifest.partition_spec_id
                # The first version's manifests have no such field, and pyiceberg then puts the plain number in its place.
                entry.data_file[0] = DataFileContent(entry.data_file.content)
                yield int(manifest.sequence_number or 0) if own is None else own, entry.data_file


REFERENCED, OFFSET, LENGTH = 17, 18, 19
"""Where the fields of a third version's data file stand that pyiceberg gives no names."""


def _delete_file(name: str, about: dict[str, Any], entry: DataFile) -> DeleteFile:
    form, referenced = entry.file_format.name, str(entry[REFERENCED] or "")
    if entry.content.name == "EQUALITY_DELETES":
        if form == "PARQUET" and entry.equality_ids:
            return DeleteFile(**about, kind="equality", equality_ids=tuple(entry.equality_ids))
    elif form == "PARQUET":
        return DeleteFile(**about, kind="positions", referenced=referenced or _only_path(entry))
    elif form == "PUFFIN" and referenced and entry[OFFSET] is not None and entry[LENGTH]:
        return DeleteFile(**about, kind="vector", referenced=referenced, offset=int(entry[OFFSET]), length=int(entry[LENGTH]))
    raise errors.StatementRefused(f"{name} has files of deletes in {form} that are not read; rewrite them, or {ON_SPARK}")


def _only_path(entry: DataFile) -> str:
    """Return the only path that a file of positions has by the bounds of its paths; '' if there may be several, or it has no bounds.

    Spark and Flink said so before there was a field for the path that is referenced.
    """
    least, greatest = ((bounds or {}).get(PATH_ID) for bounds in (entry.lower_bounds, entry.upper_bounds))
    return bytes(least).decode() if least is not None and least == greatest else ""


def read_vector(io: FileIO, file: DeleteFile) -> Sequence[int]:
    """Return the numbers of the rows that a deletion vector hides, from 0. Raises StatementRefused for one that is damaged."""
    from pyroaring import BitMap64

    with io.new_input(file.path).open() as stream:
        stream.seek(file.offset)
        blob = stream.read(file.length)
    length, body, checksum = int.from_bytes(blob[:4], "big"), blob[4:-4], int.from_bytes(blob[-4:], "big")
    if len(blob) != file.length or len(body) != length or body[:4] != VECTOR_MAGIC or zlib.crc32(body) != checksum:
        raise errors.StatementRefused(f"{file.path}: the deletion vector at byte {file.offset} is damaged")
    rows = list(BitMap64.deserialize(body[4:]))
    if len(rows) != file.rows:
        raise errors.StatementRefused(f"{file.path}: the deletion vector at byte {file.offset} has {len(rows)} rows, not {file.rows}")
    return rows


def find_field(table: Table, schema: Schema, number: int) -> Any:
    """Return a column by its id, also one that the table has no longer; None if there was never one outside of structs."""
    for known in (schema, *(one for _, one in sorted(table.schemas().items(), reverse=True))):
        for column in known.fields:
            if column.field_id == number:
                return column
    return None


Part = tuple[int, tuple[str, ...]]
"""A partition: its spec, and the values of that spec's fields as text, as NaN is not equal to itself, and -0.0 to 0.0."""


def part_of(file: LakeFile | DeleteFile) -> Part:
    """Return the partition that a file is in."""
    return file.spec, tuple(map(repr, file.partition))


def deletes_everywhere(table: Table, file: DeleteFile) -> bool:
    """Return whether a file of deleted values counts whatever the partition of a file of rows: that is so of a spec without partitions.

    Fields that were removed from a spec of the first version stay in it with the transform void, which divides nothing.
    https://iceberg.apache.org/spec/#partition-evolution
    """
    from pyiceberg.transforms import VoidTransform

    return file.kind == "equality" and all(isinstance(part.transform, VoidTransform) for part in table.specs()[file.spec].fields)


def partition_values(table: Table, snapshot: Snapshot, number: int) -> Mapping[int, Any]:
    """Return, by the places of files in the snapshot, the value that all their rows have of a column, where the metadata state it.

    They do where the files are kept apart by the column itself: files taken over from Hive lack such columns.
    """
    from pyiceberg.transforms import IdentityTransform

    places: dict[int, int] = {}
    for key, spec in table.specs().items():
        for place, part in enumerate(spec.fields):
            if part.source_id == number and isinstance(part.transform, IdentityTransform):
                places[key] = place
    return {at: file.partition[places[file.spec]] for at, file in enumerate(snapshot.files) if file.spec in places}
