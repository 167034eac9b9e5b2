"""Load an Arrow table into a database as a new table, without touching tables that this module did not create.

Tables it created are listed in the table MARKER of the same schema; Parquet files it wrote carry MARKER in their metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.errors import NotOurTable
from dialects import Dialect, Kind, Place, Session, Url, by_scheme, parse_url

Kinds = Sequence[tuple[str, Kind]]

MARKER = "auditor_demo_tables"
"""The table that lists the tables created here in its schema."""

STATEMENT_BYTES = 1_000_000
"""Size at which an INSERT ends: about 6,000 flights, well below the 4 MB that MySQL 5.7 accepts in one packet.
https://dev.mysql.com/doc/refman/9.4/en/packet-too-large.html"""

DIRECTORY = Path("demo-data")
"""Directory of the Parquet files of tables given by name instead of by path."""


def load_table(url: str, table: str, data: pa.Table, kinds: Kinds, key: str | None = "id") -> Place:
    """Create or replace the table, fill it with the data, and return its place.

    ``table`` is ``name``, ``schema.name``, or the path of a Parquet file; for an engine whose tables are files a name becomes a file in
    DIRECTORY. ``key`` becomes the primary key; None creates a table that accepts duplicate rows, with a non-unique index on the first
    column of a row store. Raises NotOurTable for an existing table that was not created here.
    """
    data = data.select([name for name, _ in kinds])
    parsed = parse_url(url)
    if "/" in table or table.endswith(".parquet"):
        return _write_file(Path(table), data)
    dialect = by_scheme(parsed.scheme)
    if dialect.TABLES_ARE_FILES:
        return _write_file(DIRECTORY / f"{table}.parquet", data)
    place = Place(tuple(table.split(".")))
    with closing(_connect(parsed, dialect)) as session:
        _drop_own_table(session, place, [name for name, _ in kinds])
        _create(session, place, kinds, key)
        (_load_texts if dialect.OPENS_FILES and dialect.is_written else _insert)(session, place, data, kinds)
        if key is None and session.dialect.ROW_STORE:
            _index(session, place, kinds[0][0])
    return place


def _connect(url: Url, dialect: Dialect) -> Session:
    """Connect with write access."""
    if dialect.OPENS_FILES:  # the file is created on this machine
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    return dialect.connect(dialect.addresses.write_url(url), 3600.0)


def _drop_own_table(session: Session, place: Place, columns: list[str]) -> None:
    """Drop the table if it was created here, and list it in MARKER. Raises NotOurTable."""
    dialect, name = session.dialect, place.parts[-1]
    marker = Place((*place.parts[:-1], MARKER))
    marker_table = dialect.names.table(*marker.parts)
    has_marker = bool(dialect.catalogue.describe(session, marker))
    listed = has_marker and session.query(f"SELECT name FROM {marker_table} WHERE name = {dialect.names.string_literal(name)}")
    for existing in dialect.catalogue.describe(session, place):
        # A table dropped by a user stays listed, and another of that name may have been created since.
        if not listed or [column.name for column in existing.columns] != columns:
            _refuse(str(place))
    session.execute(f"DROP TABLE IF EXISTS {dialect.names.table(*place.parts)}")
    if not has_marker:
        session.execute(f"CREATE TABLE {marker_table} (name VARCHAR(255) NOT NULL)")
    if not listed:
        session.execute(f"INSERT INTO {marker_table} (name) VALUES ({dialect.names.string_literal(name)})")


def _refuse(name: str) -> NoReturn:
    raise NotOurTable(f"{name} already exists and was not created by the demo; use another name, or drop it yourself")


def _create(session: Session, place: Place, kinds: Kinds, key: str | None) -> None:
    dialect = session.dialect
    columns = [
        f"{dialect.names.quote(name)} {dialect.types.native_type(kind)}" + (" NOT NULL" if name == key else "") for name, kind in kinds
    ]
    primary = [f"PRIMARY KEY ({dialect.names.quote(key)})"] if key else []
    session.execute(f"CREATE TABLE {dialect.names.table(*place.parts)} ({', '.join(columns + primary)})")


def _index(session: Session, place: Place, column: str) -> None:
    quote = session.dialect.names.quote
    name = quote(f"{place.parts[-1]}_{column}")
    session.execute(f"CREATE INDEX {name} ON {session.dialect.names.table(*place.parts)} ({quote(column)})")


def _insert(session: Session, place: Place, data: pa.Table, _: Kinds) -> None:
    """Fill the table with multi-row INSERTs, each in its own transaction."""
    table = session.dialect.names.table(*place.parts)
    for values in insert_values(session.dialect, data):
        session.execute(f"INSERT INTO {table} VALUES {values}")


def _load_texts(session: Session, place: Place, data: pa.Table, kinds: Kinds) -> None:
    """Fill the table at once, for an engine in this process that loads rows as texts."""
    texts = pa.table([pc.cast(column, pa.string()) for column in data.columns], names=data.column_names)
    session.loading.load(session.dialect.names.table(*place.parts), dict(kinds), texts)


def insert_values(dialect: Dialect, data: pa.Table) -> Iterator[str]:
    """Yield the rows as ``(...),(...)`` in pieces slightly longer than STATEMENT_BYTES; every value is exact."""
    columns = [_literals(dialect, column) for column in data.columns]
    rows = pc.binary_join_element_wise(*columns, ",", null_handling="replace", null_replacement="NULL")
    group: list[str] = []
    size = 0
    for row in rows.to_pylist():
        group.append(f"({row})")
        size += len(row)
        if size > STATEMENT_BYTES:
            yield ",".join(group)
            group, size = [], 0
    if group:
        yield ",".join(group)


def _literals(dialect: Dialect, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return each value as the text of an SQL literal; NULL stays null.

    Integers and booleans are written as they are. Other values become quoted text that the server converts to the type of the column,
    because a bare 1.5 is a decimal on some engines and a double on others; Arrow writes a double with the digits that identify it.
    """
    text = pc.cast(column, pa.string())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return text
    distinct = text.combine_chunks().dictionary_encode()
    quoted = pa.array([dialect.names.string_literal(value) for value in distinct.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([quoted.take(distinct.indices)])


def _write_file(path: Path, data: pa.Table) -> Place:
    """Write a Parquet file with MARKER in its metadata. Raises NotOurTable for an existing file without it."""
    if path.exists() and not (path.is_file() and _is_ours(path)):
        _refuse(str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    marked = data.replace_schema_metadata({**(data.schema.metadata or {}), MARKER.encode(): path.name.encode()})
    pq.write_table(marked, path)
    return Place((), path=str(path.resolve()), format="parquet")


def _is_ours(path: Path) -> bool:
    try:
        return MARKER.encode() in (pq.read_schema(path).metadata or {})
    except pa.ArrowInvalid:  # a file of another format
        return False
