"""Delta tables, and tables of Parquet with pointers, made by statements of SQL: DuckDB writes a version of each that changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deltalake

import dialects
from dialects import Session
from dialects.delta.pointed_files import write_files
from dialects.delta.pointer import NAME, LocalPointer, Pointer
from dialects.duckdb.session import DuckDBSession

TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary"


@contextmanager
def open_writable(url: str) -> Iterator[Session]:
    """Open a session for the block whose tables become the Delta tables below the root of this URL."""
    root = Path("/", dialects.parse_url(url).database)
    session = dialects.connect(f"duckdb:///{root}.duckdb?access_mode=read_write")
    assert isinstance(session, DuckDBSession)
    session.dialect = dialects.get("delta")
    try:
        yield session
        (_write_pointed if url.startswith("parquet:") else _write)(session, root)
    finally:
        session.close()


def _write(session: DuckDBSession, root: Path) -> None:
    """Write a version of each table, and remove the tables that are gone."""
    tables = {f"{schema}/{name}".removeprefix("main/"): (str(schema), str(name)) for schema, name in session.query(TABLES)}
    for folder, (schema, name) in tables.items():
        rows = session.connection.sql(f"SELECT * FROM {session.dialect.names.table(schema, name)}").to_arrow_table()
        there = deltalake.DeltaTable(root / folder).to_pyarrow_table() if (root / folder).exists() else None
        if there is None or not there.equals(rows):
            deltalake.write_deltalake(root / folder, rows, mode="overwrite", schema_mode="overwrite")
    for log in sorted(root.rglob("_delta_log")):
        if log.parent.relative_to(root).as_posix() not in tables:
            shutil.rmtree(log.parent)


def _write_pointed(session: DuckDBSession, root: Path) -> None:
    """Write each table as the next version behind its pointer, and remove those that are gone."""
    tables = {f"{schema}/{name}".removeprefix("main/"): (str(schema), str(name)) for schema, name in session.query(TABLES)}
    for folder, (schema, name) in tables.items():
        relation = session.connection.sql(f"SELECT * FROM {session.dialect.names.table(schema, name)}")
        uri, columns = (
            str(root / folder),
            {str(column): str(native) for column, native in zip(relation.columns, relation.types, strict=True)},
        )
        pointer, known = LocalPointer(uri).read() or (None, None)
        version = pointer.version + 1 if pointer else 0
        files = write_files(uri, {}, version, relation.to_arrow_reader(10_000))
        LocalPointer(uri).replace(Pointer(version, columns, files), known)
    for found in sorted(root.rglob(NAME)):
        if found.parent.relative_to(root).as_posix() not in tables:
            shutil.rmtree(found.parent)
