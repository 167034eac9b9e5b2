"""Fixtures for tests of whole runs on DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest


@contextmanager
def keep_databases_open() -> Iterator[None]:
    """Keep each DuckDB file open until the end of the block: opening one takes longer than most of what a small run does with it.

    Every session then opens it for writing, as all sessions of one process have to; tests outside such a block read it as audits do.
    """
    connect, lock = duckdb.connect, threading.Lock()
    kept: dict[str, duckdb.DuckDBPyConnection] = {}

    def connect_to_open_file(database: Any = ":memory:", read_only: bool = False, **settings: Any) -> duckdb.DuckDBPyConnection:
        path = str(database)
        with lock:
            if path not in kept and path != ":memory:" and (Path(path).exists() or not read_only):
                kept[path] = connect(path)
        return connect(path, read_only=read_only and path not in kept, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", connect_to_open_file)
        try:
            yield
        finally:
            for database in kept.values():
                database.close()


@pytest.fixture
def open_databases() -> Iterator[None]:
    """Keep each DuckDB file open until the end of the test."""
    with keep_databases_open():
        yield
