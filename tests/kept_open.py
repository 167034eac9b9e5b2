"""Keep DuckDB files open, and one instance of DuckDB: starting one takes longer than most of what a small audit does with it.

A session is then a connection of the instance, to which the file is attached under the name that it has where it is opened alone, and
whose tables it names as it does there. Every file is opened for writing, as all sessions of one process have to. Once a block starts
another process, files are opened and closed by each session again, because a file that is open for writing belongs to one process.

A cursor of such a connection, as tests may make one, is a connection of its own, which has no database: ``duckdb.connect`` serves.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.programs import forking

_INSTANCES: list[duckdb.DuckDBPyConnection] = []
"""The instances of DuckDB that this process has so far."""


STARTING_SERVERS = "engine"
"""How the names of threads begin that start servers while a test runs: these open no file of DuckDB, and sessions have theirs open."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that an instance holds open."""

    inode: int
    name: str
    instance: duckdb.DuckDBPyConnection

    def open(self) -> duckdb.DuckDBPyConnection:
        """Return a further connection of the instance, for which the file is the database."""
        connection = self.instance.cursor()
        connection.execute(f"USE {_quote(self.name)}")
        return connection

    def detach(self) -> None:
        """Close the file."""
        self.instance.execute(f"DETACH {_quote(self.name)}")


class Kept:
    """The files of a block that are kept open, each under the name that a session gives it."""

    def __init__(self) -> None:
        self._connect = duckdb.connect
        self._lock = threading.Lock()
        self._files: dict[str, Attached] = {}
        self._is_released = False

    def connect(self, database: Any = ":memory:", read_only: bool = False, **settings: Any) -> duckdb.DuckDBPyConnection:
        """Do what ``duckdb.connect`` does, and keep the file open."""
        if self._is_released or settings or str(database).startswith(":"):
            return self._connect(database, read_only=read_only, **settings)
        path = os.path.realpath(database)
        with self._lock:
            for gone in [path for path, file in self._files.items() if _inode(path) != file.inode]:
                self._files.pop(gone).detach()  # the test removed or replaced it
            if path not in self._files and (Path(path).exists() or not read_only):
                self._attach(path)
            return self._files[path].open() if path in self._files else self._connect(database, read_only=read_only)

    def _attach(self, path: str) -> None:
        name = Path(path).stem
        taken = [file.instance for file in self._files.values() if file.name.lower() == name.lower()]
        free = [instance for instance in _INSTANCES if instance not in taken]
        if not free:
            free.append(self._connect())
            free[0].execute("PRAGMA disable_checkpoint_on_shutdown")  # a file that a test leaves needs none, and a process reads its log
            _INSTANCES.append(free[0])
        literal = path.replace("'", "''")
        try:
            free[0].execute(f"ATTACH '{literal}' AS {_quote(name)}")
        except duckdb.Error:  # another process has it open, or it is not a database: the session itself says so
            return
        self._files[path] = Attached(_inode(path), name, free[0])

    def release(self) -> None:
        """Close the files, and keep none from now on."""
        with self._lock:
            self._is_released = True
            while self._files:
                self._files.popitem()[1].detach()


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


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
        if not threading.current_thread().name.startswith(STARTING_SERVERS):
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
