"""The files of tables as DuckDB opens them: those of this machine by their paths, others through the table's own FileIO of pyiceberg.

So both read with the same credentials, which a REST catalogue may give out for each table, and DuckDB needs none of its extensions, which
it would download.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

SCHEME = "iceberg-files"


def local_path(location: str) -> str | None:
    """Return the path of a file of this machine, of its location in the metadata (``file:///x``, ``file:/x``, ``/x``); else None."""
    if match := re.fullmatch(r"(?:file:(?://)?)?(/.*)", location, re.DOTALL | re.IGNORECASE):
        return match[1]
    return None


def path_of(table: str, location: str) -> str:
    """Return the path of a file of a table; ``table`` is any text without a slash."""
    return f"{SCHEME}://{table}/{location}"


def file_system(stores: Mapping[str, Any]) -> Any:
    """Return a file system for DuckDB of the paths that `path_of` makes; ``stores`` are the tables' FileIO."""
    from fsspec.spec import AbstractFileSystem

    def find(path: str) -> Any:
        table, _, location = path.removeprefix(f"{SCHEME}://").partition("/")
        return stores[table].new_input(location)

    class LakeFiles(AbstractFileSystem):  # type: ignore[misc]
        """Files that are never changed once they are written."""

        protocol = SCHEME
        cachable = False

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "type": "file", "size": len(find(path))}

        def modified(self, path: str) -> dt.datetime:
            return dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return find(path).open()

    return LakeFiles()
