"""An Iceberg table whose manifests are written by hand: with deletes of all kinds, evolved columns and partitions, and rewritten files."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.types import LongType, StringType

from tests import icebergs

ID, WORD, NUMBER, PART = 1, 2, 3, 4
"""The ids of the first columns."""


def word_of(key: int) -> str | None:
    """Return the word of a row."""
    return None if key % 61 == 0 else f"word {key % 97}"


@dataclass(frozen=True)
class Held:
    """A file of rows in a snapshot."""

    file: DataFile
    sequence: int
    keys: Sequence[int]
    positions: frozenset[int] = frozenset()
    """The places of rows that positions or a vector hide, and ``values`` of those that deleted values do."""
    values: frozenset[int] = frozenset()

    @property
    def left(self) -> list[int]:
        """The places of the rows that are shown."""
        return [place for place in range(len(self.keys)) if place not in self.positions | self.values]

    @property
    def part(self) -> tuple[int, tuple[Any, ...]]:
        """Its partition, with the spec that this is of."""
        return _part(self.file)


@dataclass(frozen=True)
class Version:
    """A snapshot of the table."""

    number: int
    columns: dict[str, int]
    """The ids of the columns by their names."""
    files: dict[str, Held]
    deletes: tuple[tuple[DataFile, int], ...]
    """Files of deletes, each with its sequence number."""

    @property
    def rows(self) -> int:
        """How many rows are shown."""
        return sum(len(held.left) for held in self.files.values())


@dataclass
class IcebergHistory:
    """A table that changes at random, in ways that each come from a seed."""

    folder: Path
    chance: random.Random
    versions: list[Version] = field(default_factory=list)
    next_key: int = 0
    oldest: int = 0
    """The first version whose files are all there."""

    def create(self) -> None:
        """Make the table, in place of one that is there."""
        kinds = {"id": pa.int64(), "word": pa.string(), "number": pa.int32(), "part": pa.int32()}
        catalog = icebergs.open_catalog(self.folder)
        if catalog.table_exists("sales.t"):
            catalog.drop_table("sales.t")
        none = pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
        self.table: Table = icebergs.make(self.folder, "sales.t", none, properties={"format-version": "2"})
        self.versions.clear()
        self.oldest = 0
        self.append(least=100)

    def change(self) -> str:
        """Make the next version, and return by what."""
        ways = {
            "append": 4, "delete_positions": 4, "delete_vector": 3, "delete_values": 3, "upsert": 3, "rewrite": 2, "add_column": 1,
            "rename_column": 1, "replace_column": 1, "promote": 0.5, "divide": 0.5, "restore": 1, "create": 0.2,
        }  # fmt: skip
        way = self.chance.choices(list(ways), list(ways.values()))[0]
        getattr(self, way)()
        return way

    # rows

    def append(self, least: int = 1) -> None:
        """Add a file of new keys, of so many at least."""
        first, self.next_key = self.next_key, self.next_key + self.chance.randrange(least, 400)
        self._commit(self._files, self._deletes, [self._write(range(first, self.next_key))])

    def upsert(self) -> None:
        """Delete some rows by their ids, and write them again in the same commit."""
        shown = [held.keys[place] for held in self._files.values() for place in held.left]
        keys = self.chance.sample(shown, min(len(shown), 20))
        if not keys:
            return self.append()
        self._delete_values(keys, ID, everywhere=True, rows=[self._write(keys)])
        return None

    def rewrite(self) -> None:
        """Write the rows of several files of a partition into one; some files of deletes stay that nothing needs any more."""
        held = list(self._files.values())
        if not held:
            return self.append()
        part = self.chance.choice(held).part
        gone = [one for one in held if one.part == part and self.chance.random() < 0.7]
        keys = [one.keys[place] for one in gone for place in one.left]
        files = {path: one for path, one in self._files.items() if one not in gone}
        made = [replace(self._write(keys, part), sequence=self._last())] if keys else []
        needed = [one for one in self._deletes if one[0].content != DataFileContent.POSITION_DELETES or self.chance.random() < 0.5]
        if any(one.positions for one in files.values()):
            needed = list(self._deletes)
        paths = {one.file.file_path for one in gone}
        return self._commit(files, [one for one in needed if _vector_of(one[0]) not in paths], made)

    def restore(self) -> None:
        """Let the newest version have the files of an older one."""
        older = self.chance.choice(self.versions[self.oldest :])
        self._commit(older.files, older.deletes, [])

    # deletes

    def delete_positions(self) -> None:
        """Hide some rows of several files of a partition by one file of positions."""
        files = dict(self._files)
        bare = {path: held for path, held in files.items() if not self._has_vector(path)}
        if not bare:
            return self.append()
        part = self.chance.choice(list(bare.values())).part
        rows = []
        for path, held in bare.items():
            if held.part == part and self.chance.random() < 0.5:
                gone = self.chance.sample(held.left, min(len(held.left), self.chance.randrange(1, 40)))
                rows += [(path, place) for place in gone]
                files[path] = replace(held, positions=held.positions | set(gone))
        bounds = {icebergs.PATH: rows[0][0].encode()} if rows and len({path for path, _ in rows}) == 1 else {}
        spec, values = part
        made = icebergs.write_file(
            self.table, icebergs.positions(rows), DataFileContent.POSITION_DELETES, partition=values, spec=spec, bounds=bounds
        )
        return self._commit(files, [*self._deletes, (made, 0)], [])

    def delete_vector(self) -> None:
        """Hide some rows of a file by a vector, which has those that are hidden already."""
        if not self._files:
            return self.append()
        path = self.chance.choice(sorted(self._files))
        held = self._files[path]
        hidden = held.positions | set(self.chance.sample(held.left, min(len(held.left), self.chance.randrange(1, 60))))
        if not hidden:
            return self.append()
        left = [one for one in self._deletes if _vector_of(one[0]) != path]
        return self._commit({**self._files, path: replace(held, positions=hidden)}, [*left, (self._vector(held, hidden), 0)], [])

    def delete_values(self) -> None:
        """Delete rows by their ids, words or numbers, everywhere or in one partition."""
        if not self._files:
            return self.append()
        held = self.chance.choice(list(self._files.values()))
        keys = self.chance.sample(list(held.keys), min(len(held.keys), 5))
        return self._delete_values(keys, self.chance.choice([ID, WORD, NUMBER]), everywhere=self.chance.random() < 0.5, near=held)

    def _delete_values(
        self, keys: Sequence[int], by: int, *, everywhere: bool, near: Held | None = None, rows: Sequence[Held] = ()
    ) -> None:
        spec, values = (0, ()) if everywhere or near is None else near.part
        gone = {_value(by, key) for key in keys}
        column = pa.array(sorted(gone, key=repr), {ID: pa.int64(), WORD: pa.string(), NUMBER: pa.int32()}[by])
        made = icebergs.write_file(
            self.table, icebergs.with_ids(pa.table({"v": column}), [by]), DataFileContent.EQUALITY_DELETES,
            partition=values, spec=spec, equality_ids=[by],
        )  # fmt: skip
        files = {
            path: replace(held, values=held.values | {place for place, key in enumerate(held.keys) if _value(by, key) in gone})
            if spec == 0 or held.part == (spec, values)
            else held
            for path, held in self._files.items()
        }
        self._commit(files, [*self._deletes, (made, 0)], rows)

    def _vector(self, held: Held, hidden: Iterable[int]) -> DataFile:
        blob = icebergs.vector(sorted(hidden))
        path = Path(self.table.location().removeprefix("file://"), "data", f"{uuid4()}.puffin")
        path.write_bytes(b"PFA1" + blob)
        return DataFile.from_args(
            _table_format_version=3, content=DataFileContent.POSITION_DELETES, file_path=f"file://{path}", file_format=FileFormat.PUFFIN,
            partition=held.file.partition, record_count=len(set(hidden)), file_size_in_bytes=path.stat().st_size, equality_ids=None,
            referenced_data_file=held.file.file_path, content_offset=4, content_size_in_bytes=len(blob),
        )  # fmt: skip

    def _has_vector(self, path: str) -> bool:
        return any(_vector_of(file) == path for file, _ in self._deletes)

    # columns and partitions

    def add_column(self) -> None:
        """Add a column, which is NULL in files that are older, or has a default there."""
        with self.table.update_schema() as update:
            update.add_column(f"more_{len(self.versions)}", StringType())
        self.append()

    def rename_column(self) -> None:
        """Give a column another name, which changes no file."""
        names = list(self._columns())
        old = self.chance.choice([name for name in names if name not in ("id", "part")])
        with self.table.update_schema() as update:
            update.rename_column(old, f"named_{len(self.versions)}")
        self.append()

    def replace_column(self) -> None:
        """Drop a column, and add another of its name."""
        own = [name for name, number in self._columns().items() if number > PART]
        if not own:
            return self.add_column()
        name = self.chance.choice(own)
        with self.table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(name)
        with self.table.update_schema() as update:
            update.add_column(name, StringType())
        return self.append()

    def promote(self) -> None:
        """Widen the type of a column, which the files keep."""
        name = next(name for name, number in self._columns().items() if number == NUMBER)
        with self.table.update_schema() as update:
            update.update_column((name,), field_type=LongType())
        self.append()

    def divide(self) -> None:
        """Divide the rows of later commits by a column."""
        if self.table.spec().is_unpartitioned():
            icebergs.spec_of(self.table, part="identity")
        self.append()

    # snapshots

    def vacuum(self) -> None:
        """Delete the files that the newest version does not have; older ones cannot be read from then on."""
        newest = self.versions[-1]
        needed = {*newest.files, *(file.file_path for file, _ in newest.deletes)}
        for path in Path(self.table.location().removeprefix("file://"), "data").iterdir():
            if f"file://{path}" not in needed:
                path.unlink()
        self.oldest = len(self.versions) - 1

    def names(self, place: int) -> Collection[str]:
        """Return the names of the columns of a version."""
        return self.versions[place].columns.keys()

    @property
    def _files(self) -> dict[str, Held]:
        return self.versions[-1].files if self.versions else {}

    @property
    def _deletes(self) -> tuple[tuple[DataFile, int], ...]:
        return self.versions[-1].deletes if self.versions else ()

    def _last(self) -> int:
        snapshot = self.table.current_snapshot()
        return int(snapshot.sequence_number or 0) if snapshot else 0

    def _columns(self) -> dict[str, int]:
        return {column.name: column.field_id for column in self.table.schema().fields}

    def _write(self, keys: Iterable[int], part: tuple[int, tuple[Any, ...]] | None = None) -> Held:
        """Write rows as a file of a partition, at times without the column by which it is divided."""
        ids = list(keys)
        divided = not self.table.spec().is_unpartitioned()
        spec, values = part or (self.table.spec().spec_id, (self.chance.randrange(3),) if divided else ())
        where = values[0] if values else None
        is_long = str(self.table.schema().find_type(NUMBER)) == "long"
        columns: dict[int, pa.Array] = {
            ID: pa.array(ids, pa.int64()),
            WORD: pa.array([word_of(key) for key in ids], pa.string()),
            NUMBER: pa.array([_value(NUMBER, key) for key in ids], pa.int64() if is_long else pa.int32()),
        }
        if not values or self.chance.random() < 0.7:
            columns[PART] = pa.array([where] * len(ids), pa.int32())
        for name, number in self._columns().items():
            if number > PART:
                texts = [f"{name} {key} {self.chance.random()}" if key % 7 else None for key in ids]
                columns[number] = pa.array(texts, pa.string())
        rows = icebergs.with_ids(pa.table({f"c{number}": values for number, values in columns.items()}), list(columns))
        return Held(icebergs.write_file(self.table, rows, partition=values, spec=spec), 0, ids)

    def _commit(self, files: dict[str, Held], deletes: Sequence[tuple[DataFile, int]], made: Sequence[Held]) -> None:
        """Make a snapshot of exactly these files; those with the sequence number 0 get its own."""
        whole = {**files, **{held.file.file_path: held for held in made}}
        transaction = self.table.transaction()
        producer = _Exactly(Operation.OVERWRITE, transaction, self.table.io)
        producer.entries = [(held.file, held.sequence) for held in whole.values()] + list(deletes)
        producer.commit()
        transaction.commit_transaction()
        number = self.table.metadata.current_snapshot_id
        assert number is not None
        own = self._last()
        self.versions.append(
            Version(
                number,
                self._columns(),
                {path: replace(held, sequence=held.sequence or own) for path, held in whole.items()},
                tuple((file, sequence or own) for file, sequence in deletes),
            )
        )


class _Writer(ManifestWriterV2):
    """Writes manifests with the fields of the third version."""

    kind = ManifestContent.DATA

    def content(self) -> ManifestContent:
        return self.kind

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "data" if self.kind == ManifestContent.DATA else "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        file = data_file_with_partition(format_version=3, partition_type=self._spec.partition_type(self._schema))
        schema = manifest_entry_schema_with_data_file(format_version=3, data_file=file)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file, file_schema=schema, record_schema=schema, schema_name="manifest_entry", metadata=self._meta
        )


class _DeletesWriter(_Writer):
    kind = ManifestContent.DELETES


class _Exactly(_FastAppendFiles):
    """Commits a snapshot of these files and no others."""

    entries: Sequence[tuple[DataFile, int]] = ()

    def _manifests(self) -> list[ManifestFile]:
        made = []
        for is_data in (True, False):
            chosen = [one for one in self.entries if (one[0].content == DataFileContent.DATA) is is_data]
            for spec in sorted({_part(file)[0] for file, _ in chosen}):
                metadata = self._transaction.table_metadata
                kind = _Writer if is_data else _DeletesWriter
                about = metadata.specs()[spec], metadata.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
                with kind(*about) as writer:
                    for file, sequence in chosen:
                        if _part(file)[0] == spec:
                            writer.add_entry(self._entry(file, sequence))
                made.append(writer.to_manifest_file())
        return made

    def _entry(self, file: DataFile, sequence: int) -> ManifestEntry:
        status = ManifestEntryStatus.EXISTING if sequence else ManifestEntryStatus.ADDED
        return ManifestEntry.from_args(
            _table_format_version=3, status=status, snapshot_id=self._snapshot_id, sequence_number=sequence or None,
            file_sequence_number=sequence or None, data_file=file,
        )  # fmt: skip


def _part(file: DataFile) -> tuple[int, tuple[Any, ...]]:
    """Return the partition of a file, with the spec that it is of: the first one has no fields, the second has one."""
    values = tuple(file.partition[place] for place in range(len(file.partition)))
    return (1 if values else 0), values


def _vector_of(file: DataFile) -> str:
    """Return the path of the file whose rows a deletion vector hides; '' for other files."""
    return str(file[17]) if file.file_format == FileFormat.PUFFIN else ""


def _value(by: int, key: int) -> Any:
    return {ID: key, WORD: word_of(key), NUMBER: key % 89}[by]
