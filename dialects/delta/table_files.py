"""The files of Delta tables, and of Parquet tables with a pointer, one by one: by what each is known, and the rows of some of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from dialects import errors
from dialects.data_files import DataFile, DataFiles, FindForms, Rows, may_name
from dialects.delta import view
from dialects.delta.place import Root, unpinned
from dialects.delta.snapshot import Snapshot

RELATION = "auditor files"
"""The view of the rows of some files."""


class LakeFiles(DataFiles):
    """The files that the log of a table, or its pointer, lists."""

    TRUSTS = "a file of the same path, size and times of writing, by the log and by the storage, has the same rows"

    def recall(self, session: Any, find: FindForms) -> None:
        session.find_forms = find

    def list_files(self, session: Any, table: str) -> Sequence[DataFile]:
        name = session.name_of(table)
        opened = session.open(name)
        if opened is None:
            raise errors.NoSuchObject(f"{name}: there is no such table any more")
        view.refuse_taken_names(name, (column.physical for column in opened.snapshot.columns), view.PLACES)
        identities = opened.identities or identify(session.root, unpinned(name)[0], opened.snapshot)
        forms = opened.forms or [""] * len(identities)
        return [
            DataFile(
                file.path,
                identity,
                file.size,
                file.rows,
                hashlib.sha256(hidden.tobytes()).hexdigest() if (hidden := opened.hidden.get(place)) is not None and len(hidden) else "",
                0 if hidden is None else len(hidden),
                form,
            )
            for place, (file, identity, form) in enumerate(zip(opened.snapshot.files, identities, forms, strict=True))
        ]

    def reading(self, session: Any, table: str, statement: str) -> str:
        opened = session.open(session.name_of(table))
        assert opened is not None, "its files were listed"
        parts = opened.snapshot.partitioned_by
        named = [column for column in opened.snapshot.columns if may_name(statement, column.name)]
        return json.dumps([(column.name, column.native, column.physical, column.name in parts) for column in named])

    def show(self, session: Any, table: str, files: Sequence[DataFile], number: str, rows: Rows) -> str:
        shown: str = session.show_files(session.name_of(table), [file.path for file in files], number, rows == "hidden")
        return shown


def identify(root: Root, name: str, snapshot: Snapshot) -> list[str]:
    """Return the identity of each file of a version; ``name`` is the table's, below the root.

    Where the table is, what the log calls it, and path, size, time and partition of the file by the log; and size and time by the storage,
    which tell a file that was replaced by another of its size. Raises NoSuchObject for a file that is not there any more.
    """
    uri = root.uri_of(name)
    stored = _stat_local(uri, snapshot) if root.is_local else _stat_objects(uri, root.options)
    identities = []
    for file in snapshot.files:
        if file.path not in stored:
            raise errors.NoSuchObject(
                f"{name}: version {snapshot.version} has the file {file.path}, which is not there any more; VACUUM deletes files of older"
                " versions, and anything else damages the table"
            )
        partition = {column: str(value) if value is not None else None for column, value in sorted(file.partition.items())}
        identities.append(json.dumps([uri, snapshot.table_id, file.path, file.size, file.modified, partition, *stored[file.path]]))
    return identities


def _stat_local(uri: str, snapshot: Snapshot) -> Mapping[str, tuple[int, int]]:
    found = {}
    for file in snapshot.files:
        try:
            state = os.stat(f"{uri}/{file.path}")  # noqa: PTH116  ten thousand of them
        except FileNotFoundError:
            continue
        found[file.path] = (state.st_size, state.st_mtime_ns)
    return found


def _stat_objects(uri: str, options: Mapping[str, str]) -> Mapping[str, tuple[int, int]]:
    """Return size and time (nanoseconds since 1970) of all objects of a table, which takes a request for a thousand of them."""
    import pyarrow.fs as stores
    from deltalake.fs import DeltaStorageHandler

    store = stores.PyFileSystem(DeltaStorageHandler(uri, dict(options)))
    objects = store.get_file_info(stores.FileSelector("", recursive=True))
    return {item.path: (int(item.size), int(item.mtime_ns)) for item in objects if item.type == stores.FileType.File}
