"""What a URL of DuckDB leads to: a file, or a database that an extension opens."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from dialects import errors
from dialects.url import Url

ACCESS_MODES = ("automatic", "read_only", "read_write")
"""The values of access_mode, of which the first means that the file may be written. https://duckdb.org/docs/stable/configuration/overview"""


BLOCK_SIZES = tuple(1 << power for power in range(14, 19))
"""The values of default_block_size, in bytes. https://duckdb.org/docs/stable/sql/statements/attach"""


def block_size_of(url: Url) -> int:
    """Return the size of blocks, in bytes, of a file that a URL lets be made; 0 for DuckDB's own choice. Raises BadUrl."""
    written = url.option("default_block_size", "")
    if written and written not in map(str, BLOCK_SIZES):
        known = ", ".join(map(str, BLOCK_SIZES))
        raise errors.BadUrl(f"{url}: default_block_size={written} is no size of blocks; use one of {known}")
    return int(written or 0)


def make_file(path: str, block_size: int) -> None:
    """Make a database with blocks of so many bytes, of which every column of every table has at least one.

    It is attached, as this process may have open what is configured otherwise. Raises errors of DuckDB.
    """
    import duckdb

    name = path.replace("'", "''")
    with closing(duckdb.connect()) as connection:
        connection.execute(f"ATTACH '{name}' AS made (BLOCK_SIZE {block_size})")


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
