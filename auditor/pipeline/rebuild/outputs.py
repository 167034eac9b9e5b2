"""Where a rebuilt table is written: a Parquet file, or a new table of a connection with ``write``."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa

import dialects
from auditor.config import ConnectionSettings
from auditor.connections.writer import open_writer, transaction, writing_dialect
from auditor.errors import AuditorError, ConfigError
from auditor.pipeline.events import ColumnSchema, source_kind
from auditor.pipeline.merge.load_files import files_removed, folder_of
from auditor.pipeline.merge.staged_rows import inserted_rows
from auditor.pipeline.merge.target_table import TargetTable, examine, find_table
from auditor.pipeline.rebuild.scratch import Scratch
from auditor.planning.target_schema import native_type
from dialects import Column, Session
from dialects.duckdb.session import ARROW_ROWS, DuckDBSession

MORE_TYPES = {"time": "TIME", "bit": "VARCHAR"}
"""Types of a Parquet file's columns of kinds that no lake has: a time of day, and bits as their digits."""

ROWS_AT_ONCE = 500_000
"""Rows that are written into a table by one transaction."""


def check_file(path: Path) -> None:
    """Raise ConfigError if a file is there already, or cannot be made."""
    if path.exists():
        raise ConfigError(f"there is a file {path} already, and a rebuilt table replaces none; name another one")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {path.absolute().parent}; create it, or correct --output")


def count_rows(scratch: Scratch) -> int:
    """Return how many rows a rebuilt table has; nothing is written."""
    [(rows,)] = _opened(scratch).query(f"SELECT COUNT(*) FROM {scratch.sql}")
    return int(rows)


def write_parquet(scratch: Scratch, path: Path, about: Mapping[str, str]) -> int:
    """Write a rebuilt table into a file, in the order of its key, and return the number of rows.

    Columns have the types that they would have in a target of Parquet or Delta. The file takes its name once it is whole; ``about`` are
    texts in its metadata. Raises ConfigError where the file cannot be written.
    """
    session, literal = _opened(scratch), scratch.session.dialect.names.string_literal
    texts = ", ".join(f"{key}: {literal(value)}" for key, value in about.items())
    rows = f"SELECT {', '.join(_lake_columns(scratch))} FROM {scratch.sql} ORDER BY {_key_of(scratch)}"
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as folder:  # which nobody else may open
            unfinished = Path(folder, "rows.parquet")
            to = f"{literal(str(unfinished))} (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{texts}}})"
            [(written,)] = session.query(f"COPY ({rows}) TO {to}")
            unfinished.chmod(0o600)
            os.link(unfinished, path)  # which fails where another process has made the file meanwhile
    except FileExistsError:
        check_file(path)
        raise
    except OSError as error:
        raise ConfigError(f"the file {path} cannot be written: {error.strerror}") from error
    return int(written)


def _lake_columns(scratch: Scratch) -> Iterator[str]:
    dialect, quote = dialects.get("delta"), scratch.session.dialect.names.quote
    for column in scratch.schema.columns:
        kind = source_kind(column)
        assert kind, "the scratch table has no column without"
        try:
            native = native_type(dialect, Column(column.name, column.type, kind, column.nullable), column.name in scratch.schema.key)
        except LookupError:
            native = MORE_TYPES[kind.name]
        yield f"CAST({quote(column.name)} AS {native}) AS {quote(column.name)}"


def check_table(name: str, connection: ConnectionSettings, place: tuple[str, str]) -> None:
    """Raise ConfigError unless a connection takes a new table at a place: a schema and a name. Raises AuditorError if it is not reached."""
    dialect = writing_dialect(name, connection)
    if dialect.writing.WRITES_COMMITS:
        raise ConfigError(f"a table is not rebuilt into {dialect.name}; write a file with --output FILE.parquet, and load that")
    with open_writer(name, connection) as session:
        _check_free(session, name, place)


def _check_free(session: Session, name: str, place: tuple[str, str]) -> None:
    if found := find_table(session, *place):
        raise ConfigError(f"the connection {name!r} has a table {found.sql} already, and a rebuilt table replaces none; name another one")


def write_table(scratch: Scratch, name: str, connection: ConnectionSettings, place: tuple[str, str], position: int) -> int:
    """Write a rebuilt table into a new one of a connection, as a pipeline into this target would; return the number of rows.

    What was made of it is dropped where that fails. Raises ConfigError if there is such a table, and AuditorError.
    """
    owner = f"rebuild {secrets.token_hex(8)}"  # for a staging table that is no pipeline's
    with open_writer(name, connection) as session:
        _check_free(session, name, place)
        table, statement = examine(session, place, owner, scratch.schema, None)
        loads = session.dialect.writing.LOADS
        statements = replace(table.statements, is_distinct=loads != "by files", of_session=loads == "side by side")
        table = replace(table, statements=statements)
        session.execute(statement)
        written = 0
        try:
            for number, texts in zip(count(), _texts(scratch), strict=False):
                rows = inserted_rows(texts, table, owner, position)
                with transaction(session):
                    _load(session, connection, table, rows, f"{folder_of(owner, place[0])}/{number:06}")
                    session.execute_all(table.statements.merge(owner))
                written += texts.num_rows
            session.execute(table.statements.create_stage()[0])
        except BaseException:
            with suppress(AuditorError):  # the error that is raised says more
                session.execute(f"DROP TABLE {table.statements.target}")
            raise
    return written


def _load(session: Session, connection: ConnectionSettings, table: TargetTable, rows: pa.Table, folder: str) -> None:
    """Load rows into a staging table that is made for them."""
    statements, columns, files = table.statements, table.stage_columns, session.dialect.writing.files
    for statement in statements.create_stage():
        session.execute(statement)
    if session.dialect.writing.LOADS != "by files":
        session.loading.load(statements.stage, columns, rows)
        return
    assert files and connection.write
    with files_removed(session, folder):
        stored = files.store_lines(dialects.parse_url(connection.write.url), folder, "rows.txt", columns, [rows])
        session.loading.copy_stored(statements.stage, [session.dialect.names.quote(one) for one in columns], folder, [stored])


def _texts(scratch: Scratch) -> Iterator[pa.Table]:
    """Yield the rows as texts, as events of the stream give them, in the order of the key."""
    session = _opened(scratch)
    columns = ", ".join(f"{_text(session, column)} AS {session.dialect.names.quote(column.name)}" for column in scratch.schema.columns)
    sql, held = f"SELECT {columns} FROM {scratch.sql} ORDER BY {_key_of(scratch)}", list[pa.RecordBatch]()
    with session.translated():
        for batch in session.connection.sql(sql).to_arrow_reader(ARROW_ROWS):
            held.append(batch)
            if sum(one.num_rows for one in held) >= ROWS_AT_ONCE:
                yield pa.Table.from_batches(held)
                held = []
    if held:
        yield pa.Table.from_batches(held)


def _text(session: Session, column: ColumnSchema) -> str:
    """Return SQL of a column's text, as `auditor.pipeline.events` says."""
    name, kind = session.dialect.names.quote(column.name), source_kind(column)
    assert kind
    if kind.name == "binary":
        return f"LOWER(HEX({name}))"
    if kind.name == "bit":
        return f"CAST(CAST({name} AS UBIGINT) AS VARCHAR)"
    if kind.name == "timestamptz":
        return f"CAST({name} AT TIME ZONE 'UTC' AS VARCHAR)"
    return f"CAST({name} AS VARCHAR)"


def _key_of(scratch: Scratch) -> str:
    return ", ".join(map(scratch.session.dialect.names.quote, scratch.schema.key))


def _opened(scratch: Scratch) -> DuckDBSession:
    assert isinstance(scratch.session, DuckDBSession)
    return scratch.session
