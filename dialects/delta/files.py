"""The files of tables in object stores, as DuckDB opens them: through the client that deltalake reads the log with.

So both use the same credentials, and DuckDB needs none of its extensions, which it would download.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dialects.delta.place import Root

SCHEME = "delta-files"

LOG = "_delta_log"
"""The folder of a table's log."""

ENTRY = 65_536
"""Bytes of a version's file by which it is known."""


def file_system(open_table: Callable[[str], Any]) -> Any:
    """Return a file system for DuckDB whose paths are ``delta-files://<table>/<file>``; ``open_table`` returns a table's own."""
    from fsspec.spec import AbstractFileSystem

    class LakeFiles(AbstractFileSystem):  # type: ignore[misc]
        """Files that are never changed once they are written."""

        protocol = SCHEME
        cachable = False

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            table, name = split(path)
            return {"name": path, "type": "file", "size": open_table(table).get_file_info([name])[0].size}

        def modified(self, path: str) -> dt.datetime:
            return dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            table, name = split(path)
            return open_table(table).open_input_file(name)

    return LakeFiles()


def path_of(table: str, name: str) -> str:
    """Return the path of a table's file; ``table`` is any text without a slash."""
    return f"{SCHEME}://{table}/{name}"


def split(path: str) -> tuple[str, str]:
    """Return the table and the file of a path."""
    table, _, name = path.removeprefix(f"{SCHEME}://").partition("/")
    return table, name


def table_files(uri: str, options: Mapping[str, str], sizes: Mapping[str, int]) -> Any:
    """Return the files of a table; ``sizes`` by their paths spare a request each."""
    from deltalake.fs import DeltaStorageHandler

    return DeltaStorageHandler(uri, dict(options), dict(sizes))


def read_log_entry(root: Root, name: str, version: int) -> bytes | None:
    """Return how the file of a version begins in a table's log, with its time and random names; None if there is no such file."""
    import pyarrow.fs as stores
    from deltalake.fs import DeltaStorageHandler

    store = stores.PyFileSystem(DeltaStorageHandler(root.uri_of(name), dict(root.options)))
    try:
        with store.open_input_file(f"{LOG}/{version:020}.json") as entry:
            return bytes(entry.read(ENTRY))
    except FileNotFoundError:
        return None


def delete_table(root: Root, name: str) -> None:
    """Delete the files of a table, if there are any: those of its log last, so that what is left of it after a kill is a table still."""
    if root.is_local:
        folder = Path(root.uri_of(name))
        for part in (*(child for child in sorted(folder.glob("*")) if child.name != LOG), folder / LOG, folder):
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
        return
    import pyarrow.fs as stores
    from deltalake.fs import DeltaStorageHandler

    store = stores.PyFileSystem(DeltaStorageHandler(root.uri, dict(root.options)))
    objects = store.get_file_info(stores.FileSelector(name, allow_not_found=True, recursive=True))
    for path in sorted((item.path for item in objects if item.type == stores.FileType.File), key=lambda name: (f"/{LOG}/" in name, name)):
        store.delete_file(path)
