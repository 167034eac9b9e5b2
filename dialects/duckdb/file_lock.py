"""Wait for a file that another process has open: DuckDB opens a file in one process that writes, or in several that read.

https://duckdb.org/docs/stable/connect/concurrency
"""

from __future__ import annotations

import random
import re
import time
from contextlib import closing
from typing import Any

from dialects.durations import durations
from dialects.errors import FileInUse

_LOCKED = re.compile(r"Could not set lock on file|Unique file handle conflict")
"""How DuckDB says that another process has a file open, or for a moment another thread of this one that looks whether it is free."""

_HOLDER = re.compile(r"Conflicting lock is held in (?P<program>.+?) \(PID (?P<process>\d+)\)")


def open_file(path: str, read_only: bool, patience: float) -> Any:
    """Open a database, and wait up to ``patience`` seconds while another process has its file open in a mode that excludes this one.

    Raises FileInUse, and errors of DuckDB.
    """
    import duckdb

    until = time.monotonic() + patience
    while True:
        try:
            return duckdb.connect(path, read_only=read_only)
        except duckdb.Error as error:
            if not _LOCKED.search(str(error)):
                raise
            if not _wait(path, read_only, until):
                raise FileInUse(_describe(str(error))) from error


def _wait(path: str, read_only: bool, until: float) -> bool:
    """Wait until a file can be opened; return False if it could not be before ``until`` (monotonic seconds).

    It is attached to a database in memory: to open one anew for each attempt takes ten times as much CPU.
    """
    import duckdb

    name, mode = path.replace("'", "''"), " (READ_ONLY)" if read_only else ""
    with closing(duckdb.connect()) as probe:
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, random.uniform(*durations().file_poll)))
            try:
                probe.execute(f"ATTACH '{name}' AS probed{mode}")
            except duckdb.Error as error:
                if _LOCKED.search(str(error)):
                    continue
            return True  # an error of another kind is raised by the attempt to open it
    return False


def _describe(error: str) -> str:
    """Return a sentence that names the process which has the file open, as far as DuckDB's error does."""
    found = _HOLDER.search(error)
    who = f" ({found['program']}, PID {found['process']})" if found else ""
    return f"another process has the file open{who}; close it there, or retry later"
