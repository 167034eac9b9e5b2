"""Keep DuckDB files open: opening one takes longer than most of what a small audit does with it.

Every session then opens it for writing, as all sessions of one process have to. Once a block starts another process, files are opened
and closed by each session again, because a file that is open for writing belongs to one process.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests import forking


class Kept:
    """The files of a block, each with the connection that keeps it open."""

    def __init__(self) -> None:
        self._connect = duckdb.connect
        self._lock = threading.Lock()
        self._files: dict[str, tuple[int, duckdb.DuckDBPyConnection]] = {}
        self._is_released = False

    def connect(self, database: Any = ":memory:", read_only: bool = False, **settings: Any) -> duckdb.DuckDBPyConnection:
        """Do what ``duckdb.connect`` does, and keep the file open."""
        path = str(database)
        with self._lock:
            if path in self._files and _inode(path) != self._files[path][0]:
                self._files.pop(path)[1].close()  # the test removed or replaced it
            if not (
                self._is_released or settings or path in self._files or path.startswith(":") or (read_only and not Path(path).exists())
            ):
                self._keep(path)
            return self._connect(path, read_only=read_only and path not in self._files, **settings)

    def _keep(self, path: str) -> None:
        try:
            opened = self._connect(path)
        except duckdb.Error:  # open for reading already, or not a database: the session itself says so
            return
        self._files[path] = _inode(path), opened

    def release(self) -> None:
        """Close the files, and keep none from now on."""
        with self._lock:
            self._is_released = True
            for _, opened in self._files.values():
                opened.close()
            self._files.clear()


def _inode(path: str) -> int:
    return Path(path).stat().st_ino if Path(path).exists() else 0


@contextmanager
def keep_databases_open() -> Iterator[None]:
    """Keep each DuckDB file that is opened in the block open until its end, or until it starts a process."""
    kept = Kept()
    start_forked, start = forking.Forked.__init__, subprocess.Popen.__init__

    def release_and_fork(self: Any, *arguments: Any, **options: Any) -> None:
        kept.release()
        start_forked(self, *arguments, **options)

    def release_and_start(self: Any, *arguments: Any, **options: Any) -> None:
        kept.release()
        start(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", kept.connect)
        patch.setattr(forking.Forked, "__init__", release_and_fork)
        patch.setattr(subprocess.Popen, "__init__", release_and_start)
        try:
            yield
        finally:
            kept.release()
