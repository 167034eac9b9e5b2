"""Delta tables made by statements of SQL: DuckDB holds the tables, and writes a version of each that changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deltalake

import dialects
from dialects import Session
from dialects.duckdb import DuckDBSession

TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT temporary"


@contextmanager
def open_writable(url: str) -> Iterator[Session]:
    """Open a session for the block whose tables become the Delta tables below the root of this URL."""
    root = Path("/", dialects.parse_url(url).database)
    session = dialects.connect(f"duckdb:///{root}.duckdb?access_mode=read_write")
    assert isinstance(session, DuckDBSession)
    session.dialect = dialects.get("delta")
    try:
        yield session
        _write(session, root)
    finally:
        session.close()


def _write(session: DuckDBSession, root: Path) -> None:
    """Write a version of each table, and remove the tables that are gone."""
    tables = {f"{schema}/{name}".removeprefix("main/"): (str(schema), str(name)) for schema, name in session.query(TABLES)}
    for folder, (schema, name) in tables.items():
        rows = session.connection.sql(f"SELECT * FROM {session.dialect.table(schema, name)}").to_arrow_table()
        there = deltalake.DeltaTable(root / folder).to_pyarrow_table() if (root / folder).exists() else None
        if there is None or not there.equals(rows):
            deltalake.write_deltalake(root / folder, rows, mode="overwrite", schema_mode="overwrite")
    for log in sorted(root.rglob("_delta_log")):
        if log.parent.relative_to(root).as_posix() not in tables:
            shutil.rmtree(log.parent)
