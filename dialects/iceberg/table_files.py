"""The files of Iceberg tables, one by one: by what each is known, which deletes may hide rows of it, and the rows of some of them."""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.data_files import DataFile, DataFiles, FindForms, Rows, may_name
from dialects.iceberg import files
from dialects.iceberg.layout import Node
from dialects.iceberg.snapshot import DeleteFile, Snapshot, deletes_everywhere, part_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

RELATION = "auditor files"
"""The view of the rows of some files."""

AT_ONCE = 32
"""Requests for files' sizes that are under way at a time, of stores that pyarrow does not read."""

Layout = tuple[Node, ...]
Columns = Callable[[Sequence[str]], Sequence[Layout]]
"""Returns the columns of files by their paths."""


class LakeFiles(DataFiles):
    """The files that the manifests of a snapshot list."""

    TRUSTS = "a file of the same path, size, partition and commit, and of the same time of writing by the storage, has the same rows"

    def recall(self, session: Any, find: FindForms) -> None:
        session.find_forms = find

    def list_files(self, session: Any, table: str) -> Sequence[DataFile]:
        name = session.name_of(table)
        opened = session.open(name)
        if opened is None:
            raise errors.NoSuchObject(f"{name}: there is no such table any more")
        identified = session.identified(name, opened)
        hidden = find_deletes(opened.table, opened.snapshot, identified, opened.viewer.equality_column)
        return [
            DataFile(
                file.path,
                identified.identities[place],
                file.size,
                file.rows,
                hidden[place],
                None if hidden[place] else 0,
                identified.forms[place],
            )
            for place, file in enumerate(opened.snapshot.files)
        ]

    def reading(self, session: Any, table: str, statement: str) -> str:
        opened = session.open(session.name_of(table))
        assert opened is not None, "its files were listed"
        named = [_describe(column) for column in opened.snapshot.schema.fields if may_name(statement, column.name)]
        return json.dumps([named, opened.table.properties.get("schema.name-mapping.default", "")])

    def show(self, session: Any, table: str, files: Sequence[DataFile], number: str, rows: Rows) -> str:
        shown: str = session.show_files(session.name_of(table), [file.path for file in files], number, rows)
        return shown


@dataclass(frozen=True, slots=True)
class Identified:
    """By what the files of a snapshot are known, by their places in it."""

    identities: Sequence[str]
    stored: Mapping[str, Any]
    """What the storage says of each file of rows or of deletes, by its path."""
    forms: Sequence[str] = ()
    layouts: Sequence[Layout] = ()
    """The columns of each, of which the form is a digest."""

    def with_layouts(self, find: FindForms, read: Columns, snapshot: Snapshot) -> Identified:
        """Return the same with the files' columns: of files whose form is known, one of each form is opened, of others all are."""
        paths = [file.path for file in snapshot.files]
        known = {identity: form for identity, form in find(self.identities).items() if form}
        examples = dict(
            sorted(((known[one], path) for one, path in zip(self.identities, paths, strict=True) if one in known), reverse=True)
        )
        unknown = [path for one, path in zip(self.identities, paths, strict=True) if one not in known]
        opened = [*examples.values(), *unknown]
        found = dict(zip(opened, read(opened), strict=True))
        layouts = [found[examples[known[one]] if one in known else path] for one, path in zip(self.identities, paths, strict=True)]
        digests = {layout: hashlib.sha256(repr(layout).encode()).hexdigest() for layout in dict.fromkeys(layouts)}
        forms = [known.get(one) or digests[layout] for one, layout in zip(self.identities, layouts, strict=True)]
        return replace(self, forms=forms, layouts=layouts)


def identify(table: Table, snapshot: Snapshot, name: str) -> Identified:
    """Return the identity of each file of a snapshot.

    Which table it is of, its path, size, rows, commit and partition by the manifest, and its size and time by the storage, which tell it
    from another that took its place. Raises NoSuchObject for a file that is not there any more.
    """
    locations = list(dict.fromkeys([*(file.path for file in snapshot.files), *(file.path for file in snapshot.deletes)]))
    stored = _stat(table.io, locations)
    if gone := next((str(location) for location in locations if location not in stored), None):
        raise errors.NoSuchObject(
            f"{name}: snapshot {snapshot.version} has the file {gone}, which is not there any more; expire_snapshots deletes files of older"
            " snapshots, and anything else damages the table"
        )
    specs = {key: [(field.source_id, str(field.transform)) for field in spec.fields] for key, spec in table.specs().items()}
    identities = []
    for file in snapshot.files:
        partition = [None if value is None else repr(value) for value in file.partition]
        about = [str(table.metadata.table_uuid), file.path, file.size, file.rows, file.sequence, specs[file.spec], partition]
        identities.append(json.dumps([*about, *stored[file.path]]))
    return Identified(identities, stored)


def find_deletes(table: Table, snapshot: Snapshot, identified: Identified, column: Callable[[int], Any]) -> list[str]:
    """Return of each file, by its place, a digest of the deletes that may hide rows of it; '' where none may.

    Those are the deletes that `dialects.iceberg.view` lets hide rows of the file, or more; with the columns by whose values rows are
    deleted, which ``column`` returns of their ids. Equal digests of one file, equal rows that are hidden.
    """
    paths = {file.path for file in snapshot.files}
    vectors: dict[str, list[DeleteFile]] = {}
    by_place: dict[Any, list[DeleteFile]] = {}
    for one in snapshot.deletes:
        if one.kind == "vector":
            vectors.setdefault(one.referenced, []).append(one)
        elif one.kind == "positions":
            by_place.setdefault(one.referenced if one.referenced in paths else (one.kind, part_of(one)), []).append(one)
        else:
            by_place.setdefault(one.kind if deletes_everywhere(table, one) else (one.kind, part_of(one)), []).append(one)
    columns = {number: _describe(column(number)) for one in snapshot.deletes for number in one.equality_ids}

    def say(one: DeleteFile) -> Sequence[Any]:
        by = [columns[number] for number in one.equality_ids]
        return [one.kind, one.path, one.size, one.rows, one.sequence, one.offset, one.length, by, identified.stored[one.path]]

    chains = {key: _Chain.of(found, say) for key, found in by_place.items()}
    nothing = _Chain([], [""])
    digests = []
    for file in snapshot.files:
        own = part_of(file)
        parts = ["".join(json.dumps(say(vector)) for vector in vectors.get(file.path, ()) if file.sequence <= vector.sequence)]
        if not parts[0]:  # a vector stands for all earlier files of positions
            parts += [chains.get(key, nothing).since(file.sequence) for key in (file.path, ("positions", own))]
        parts += [chains.get(key, nothing).after(file.sequence) for key in ("equality", ("equality", own))]
        digests.append(hashlib.sha256(json.dumps(parts).encode()).hexdigest() if any(parts) else "")
    return digests


@dataclass(frozen=True, slots=True)
class _Chain:
    """Deletes by the numbers of their commits, with a digest of those from each on."""

    sequences: Sequence[int]
    digests: Sequence[str]

    @classmethod
    def of(cls, deletes: Iterable[DeleteFile], say: Callable[[DeleteFile], Sequence[Any]]) -> _Chain:
        found = sorted(deletes, key=lambda one: (one.sequence, one.path))
        digests = [""]
        for one in reversed(found):
            digests.append(hashlib.sha256(json.dumps([digests[-1], say(one)]).encode()).hexdigest())
        return cls([one.sequence for one in found], digests[::-1])

    def since(self, sequence: int) -> str:
        """Return the digest of those of this commit and of later ones."""
        return self.digests[bisect_left(self.sequences, sequence)]

    def after(self, sequence: int) -> str:
        """Return the digest of those of later commits."""
        return self.digests[bisect_right(self.sequences, sequence)]


def only(table: Table, snapshot: Snapshot, places: Sequence[int]) -> Snapshot:
    """Return a snapshot of some of its files, in this order, with the deletes that may hide rows of them."""
    some = [snapshot.files[place] for place in places]
    paths, parts = {file.path for file in some}, {part_of(file) for file in some}
    all_paths = {file.path for file in snapshot.files}

    def may_hide(one: DeleteFile) -> bool:
        if deletes_everywhere(table, one):
            return True
        if one.kind == "vector" or one.referenced in all_paths:
            return one.referenced in paths
        return part_of(one) in parts

    return replace(snapshot, files=some, deletes=[one for one in snapshot.deletes if may_hide(one)])


def _describe(column: Any) -> Sequence[Any]:
    """Return what decides how the values of a column are read, for `json.dumps`."""
    default = column.initial_default
    return [column.field_id, column.name, column.field_type.model_dump_json(), None if default is None else repr(default)]


def _stat(io: Any, locations: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return size and time (nanoseconds since 1970, where the storage says it) of the files that are there, by their locations."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    found: dict[str, tuple[int, ...]] = {}
    remote = []
    for location in locations:
        path = files.local_path(location)
        if path is None:
            remote.append(location)
            continue
        try:
            state = os.stat(path)  # noqa: PTH116  ten thousand of them
        except FileNotFoundError:
            continue
        found[location] = (state.st_size, state.st_mtime_ns)
    return found | (_stat_by_pyarrow(io, remote) if isinstance(io, PyArrowFileIO) else _stat_one_by_one(io, remote))


def _stat_by_pyarrow(io: Any, locations: Sequence[str]) -> dict[str, tuple[int, ...]]:
    import pyarrow.fs as stores

    by_store: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for location in locations:
        scheme, host, path = io.parse_location(location, io.properties)
        by_store.setdefault((scheme, host), []).append((location, path))
    found: dict[str, tuple[int, ...]] = {}
    for store, known in by_store.items():
        infos = io.fs_by_scheme(*store).get_file_info([path for _, path in known])
        for (location, _), info in zip(known, infos, strict=True):
            if info.type == stores.FileType.File:
                found[location] = (int(info.size), int(info.mtime_ns or 0))
    return found


def _stat_one_by_one(io: Any, locations: Sequence[str]) -> dict[str, tuple[int, ...]]:
    def size(location: str) -> tuple[int, ...] | None:
        file = io.new_input(location)
        return (len(file),) if file.exists() else None

    with ThreadPoolExecutor(AT_ONCE) as requests:
        return {location: found for location, found in zip(locations, requests.map(size, locations), strict=True) if found}
