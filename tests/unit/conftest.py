"""Fixtures for tests of whole runs on DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest


@pytest.fixture
def open_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep each DuckDB file open until the end of the test: opening one takes longer than most of what a small run does with it.

    Every session then opens it for writing, as all sessions of one process have to; tests without this fixture read it as audits do.
    """
    connect, lock = duckdb.connect, threading.Lock()
    kept: dict[str, duckdb.DuckDBPyConnection] = {}

    def connect_to_open_file(database: Any = ":memory:", read_only: bool = False, **settings: Any) -> duckdb.DuckDBPyConnection:
        path = str(database)
        with lock:
            if path not in kept and path != ":memory:" and (Path(path).exists() or not read_only):
                kept[path] = connect(path)
        return connect(path, read_only=read_only and path not in kept, **settings)

    monkeypatch.setattr(duckdb, "connect", connect_to_open_file)
    yield
    for database in kept.values():
        database.close()
