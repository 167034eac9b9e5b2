"""Tables of lakes made by statements of SQL, of Delta, of Iceberg, and of Parquet with pointers: each that changed gets a new version."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deltalake
import pyarrow as pa

import dialects
from dialects import Session
from dialects.delta.pointed_files import write_files
from dialects.delta.pointer import NAME, LocalPointer, Pointer
from dialects.duckdb.session import DuckDBSession
from dialects.iceberg.data_files import make_schema, stored_value
from dialects.iceberg.data_files import write_files as write_data_files
from tests import icebergs

TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary"


@contextmanager
def open_writable(url: str) -> Iterator[Session]:
    """Open a session for the block whose tables become those of the lake at this URL."""
    parsed = dialects.parse_url(url)
    form = dialects.by_scheme(parsed.scheme).name
    root = (
        Path("/", parsed.database) if form == "delta" else Path(parsed.options["uri"].removeprefix("sqlite:///")).parent / parsed.database
    )
    session = dialects.connect(f"duckdb:///{root}.duckdb?access_mode=read_write")
    assert isinstance(session, DuckDBSession)
    session.dialect = dialects.get(form)
    try:
        yield session
        (_write_pointed if url.startswith("parquet:") else _write_icebergs if form == "iceberg" else _write)(session, root)
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


def _write_icebergs(session: DuckDBSession, root: Path) -> None:
    """Write a snapshot of each table of the catalogue's namespace, and drop the tables that are gone."""
    catalog, quote = icebergs.open_catalog(root.parent), session.dialect.names.quote
    found = [str(name) for _, name in session.query(TABLES)]
    for name in found:
        described = {str(row[0]): str(row[1]) for row in session.query(f"DESCRIBE {quote(name)}")}
        schema = make_schema(described)
        rows = session.connection.sql(f"SELECT * FROM {quote(name)}").to_arrow_table()
        known = _WRITTEN.get((str(root), name))
        if known is not None and known.equals(rows) and catalog.table_exists((root.name, name)):
            continue
        if catalog.table_exists((root.name, name)):
            catalog.drop_table((root.name, name))
        table = catalog.create_table((root.name, name), schema)
        values = (f"{stored_value(field.field_type, quote(field.name), quote)} AS {quote(field.name)}" for field in table.schema().fields)
        batches = session.connection.sql(f"SELECT {', '.join(values)} FROM {quote(name)}").to_arrow_reader(10_000)
        icebergs.commit(table, rows=write_data_files(table.metadata, table.io, batches))
        _WRITTEN[str(root), name] = rows
    for _, name in catalog.list_tables(root.name):
        if name not in found:
            catalog.drop_table((root.name, name))
    catalog.close()


_WRITTEN: dict[tuple[str, str], pa.Table] = {}
"""What this process wrote last into a table, by the folder of the catalogue's namespace and the table's name."""


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
