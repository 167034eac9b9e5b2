"""Iceberg tables in a catalogue of SQLite, with what pyiceberg itself does not write: files of deletes, and files without ids."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyroaring import BitMap64

PATH, POSITION = 2147483546, 2147483545


def properties(folder: Path) -> dict[str, str]:
    """Return what the catalogue of a folder is opened with."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def url_of(folder: Path, namespace: str = "") -> str:
    """Return the URL of the catalogue of a folder."""
    return f"iceberg://default/{namespace}?" + "&".join(f"{name}={value}" for name, value in properties(folder).items())


def open_catalog(folder: Path) -> Catalog:
    """Return the catalogue of a folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    return load_catalog("default", **properties(folder))


def make(folder: Path, name: str, rows: pa.Table, **options: Any) -> Table:
    """Make a table with these rows."""
    catalog = open_catalog(folder)
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    table = catalog.create_table(name, schema=rows.schema, **options)
    if rows.num_rows:
        table.append(rows)
    return table


def with_ids(rows: pa.Table, ids: Sequence[int]) -> pa.Table:
    """Return rows whose columns have these ids in a Parquet file."""
    fields = [field.with_metadata({"PARQUET:field_id": str(number)}) for field, number in zip(rows.schema, ids, strict=True)]
    return rows.cast(pa.schema(fields))


def write_file(
    table: Table,
    rows: pa.Table,
    content: DataFileContent = DataFileContent.DATA,
    *,
    partition: Sequence[Any] = (),
    spec: int | None = None,
    equality_ids: Sequence[int] | None = None,
    form: FileFormat = FileFormat.PARQUET,
    key: bytes | None = None,
    bounds: Mapping[int, bytes] | None = None,
    **options: Any,
) -> DataFile:
    """Write a Parquet file of a table, which no snapshot has yet; ``bounds`` are the least and greatest values of columns at once."""
    path = Path(table.location().removeprefix("file://"), "data", f"{uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    made = DataFile.from_args(
        _table_format_version=3, content=content, file_path=f"file://{path}", file_format=form, partition=Record(*partition),
        record_count=rows.num_rows, file_size_in_bytes=path.stat().st_size, column_sizes={}, value_counts={}, null_value_counts={},
        nan_value_counts={}, lower_bounds=dict(bounds or {}), upper_bounds=dict(bounds or {}), key_metadata=key, split_offsets=None,
        equality_ids=list(equality_ids) if equality_ids else None, sort_order_id=None,
    )  # fmt: skip
    made.spec_id = table.spec().spec_id if spec is None else spec
    return made


def positions(rows: Sequence[tuple[str, int]]) -> pa.Table:
    """Return the rows of a file of positions."""
    columns = {"file_path": pa.array([path for path, _ in rows], pa.string()), "pos": pa.array([row for _, row in rows], pa.int64())}
    return with_ids(pa.table(columns), (PATH, POSITION))


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AddDeletes(_FastAppendFiles):
    """Commits files of deletes, and of rows beside them, as a merge-on-read of Flink or Spark does."""

    deletes: Sequence[DataFile] = ()

    def _manifests(self) -> list[ManifestFile]:
        made = super()._manifests()
        for spec in {file.spec_id for file in self.deletes}:
            metadata = self._transaction.table_metadata
            with _DeletesWriter(
                metadata.specs()[spec], metadata.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
            ) as writer:
                for file in self.deletes:
                    if file.spec_id == spec:
                        writer.add(
                            ManifestEntry.from_args(
                                status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, sequence_number=None, data_file=file
                            )
                        )
            made.append(writer.to_manifest_file())
        return made


def commit(table: Table, *, deletes: Sequence[DataFile] = (), rows: Sequence[DataFile] = ()) -> None:
    """Make a snapshot with these files of deletes and of rows more."""
    transaction = table.transaction()
    added = _AddDeletes(Operation.OVERWRITE, transaction, table.io)
    added.deletes = deletes
    for file in rows:
        added.append_data_file(file)
    added.commit()
    transaction.commit_transaction()


def data_files(table: Table) -> list[str]:
    """Return the paths of a table's files of rows, the oldest first."""
    snapshot = table.current_snapshot()
    assert snapshot
    entries = [
        entry
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    return [entry.data_file.file_path for entry in sorted(entries, key=lambda entry: entry.sequence_number or 0)]


def vector(rows: Sequence[int]) -> bytes:
    """Return the blob of a deletion vector: https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type"""
    body = bytes.fromhex("d1d33964") + BitMap64(rows).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def spec_of(table: Table, **fields: str) -> PartitionSpec:
    """Give a table a partition field more for each of these transforms, by the names of columns, and return its new spec."""
    with table.update_spec() as update:
        for name, transform in fields.items():
            update.add_field(name, transform)
    return table.spec()


def rows_of(columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table of Arrow arrays."""
    return pa.table(dict(columns))
