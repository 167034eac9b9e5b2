"""What a URL of DuckDB leads to: a file, or a database that an extension opens."""

from __future__ import annotations

from pathlib import Path

from dialects import errors
from dialects.url import Url

ACCESS_MODES = ("automatic", "read_only", "read_write")
"""The values of access_mode, of which the first means that the file may be written. https://duckdb.org/docs/stable/configuration/overview"""


def is_opened_by_extension(path: str) -> bool:
    """Return whether a database is no file: ``:memory:``, or what an extension opens, as ``md:DATABASE``."""
    return ":" in path.partition("/")[0]


def check_path(url: Url, path: str, must_exist: bool) -> None:
    """Raise NoSuchObject where there is no file to open, or no folder to make it in: DuckDB's own error cannot always be caught."""
    if is_opened_by_extension(path):
        return
    if Path(path).is_dir():
        raise errors.NoSuchObject(f"{url}: {path} is a folder; write the path of a DuckDB file")
    if must_exist and not Path(path).exists():
        raise errors.NoSuchObject(f"{url}: there is no file {Path(path).absolute()}; correct the path, duckdb:////FILE if it is absolute")
    if not Path(path).absolute().parent.is_dir():
        raise errors.NoSuchObject(f"{url}: there is no folder {Path(path).absolute().parent}; create it, or correct the path")
