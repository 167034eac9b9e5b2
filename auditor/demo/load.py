"""Put an Arrow table into a database as a new table, and touch no table that this module did not make.

What it made stands in a table beside its tables (MARKER), or in the metadata of a Parquet file that it wrote.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.errors import NotOurTable
from dialects import Dialect, Kind, Place, Session, Url, by_scheme, parse

Kinds = Sequence[tuple[str, Kind]]

MARKER = "auditor_demo_tables"
"""The table that lists, in its schema, the tables made here."""

STATEMENT_BYTES = 1_000_000
"""How long an INSERT grows: some 6,000 flights, well below the 4 MB that MySQL 5.7 accepts in one packet.
https://dev.mysql.com/doc/refman/9.4/en/packet-too-large.html"""

DIRECTORY = Path("demo-data")
"""Where Parquet files go whose table was given by a name and not by a path."""


def load_table(url: str, table: str, data: pa.Table, kinds: Kinds, key: str | None = "id") -> Place:
    """Make the table anew, fill it with the data, and return where it is.

    ``table`` is ``name``, ``schema.name``, or the path of a Parquet file; an engine that has only files gets a file in
    DIRECTORY for a name. ``key`` becomes the primary key; None makes a table in which rows may be there twice, with a plain
    index on the first column where the engine has indexes. Raises NotOurTable for a table that was not made here.
    """
    data = data.select([name for name, _ in kinds])
    parsed = parse(url)
    if "/" in table or table.endswith(".parquet"):
        return _write_file(Path(table), data)
    if parsed.scheme in FILES_ONLY:
        return _write_file(DIRECTORY / f"{table}.parquet", data)
    place = Place(tuple(table.split(".")))
    with closing(_connect(parsed)) as session:
        _make_room(session, place, [name for name, _ in kinds])
        _create(session, place, kinds, key)
        FILLS.get(parsed.scheme, _insert)(session, session.dialect.table(*place.parts), data)
        if key is None and session.dialect.ROW_STORE:
            _index(session, place, kinds[0][0])
    return place


def _connect(url: Url) -> Session:
    """A session that may write; only an engine whose database is a file has to be told."""
    dialect = by_scheme(url.scheme)
    if url.scheme in FILLS:  # in this process, so its file is made here
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    return dialect.connect(dataclasses.replace(url, options={**url.options, "access_mode": "read_write"}), 3600.0)


def _make_room(session: Session, place: Place, columns: list[str]) -> None:
    """Drop the table if it was made here, and list it as made here."""
    dialect, name = session.dialect, place.parts[-1]
    marker = Place((*place.parts[:-1], MARKER))
    in_marker = dialect.table(*marker.parts)
    has_list = bool(dialect.describe(session, marker))
    listed = has_list and session.query(f"SELECT name FROM {in_marker} WHERE name = {dialect.string(name)}")
    for there in dialect.describe(session, place):
        # The list outlives a table that somebody dropped, and another of that name may have been made since.
        if not listed or [column.name for column in there.columns] != columns:
            _refuse(str(place))
    session.execute(f"DROP TABLE IF EXISTS {dialect.table(*place.parts)}")
    if not has_list:
        session.execute(f"CREATE TABLE {in_marker} (name VARCHAR(255) NOT NULL)")
    if not listed:
        session.execute(f"INSERT INTO {in_marker} (name) VALUES ({dialect.string(name)})")


def _refuse(name: str) -> NoReturn:
    raise NotOurTable(f"{name} is there and the demo did not make it; name another table, or drop this one yourself")


def _create(session: Session, place: Place, kinds: Kinds, key: str | None) -> None:
    dialect = session.dialect
    columns = [f"{dialect.quote(name)} {dialect.native_type(kind)}" + (" NOT NULL" if name == key else "") for name, kind in kinds]
    primary = [f"PRIMARY KEY ({dialect.quote(key)})"] if key else []
    session.execute(f"CREATE TABLE {dialect.table(*place.parts)} ({', '.join(columns + primary)})")


def _index(session: Session, place: Place, column: str) -> None:
    quote = session.dialect.quote
    name = quote(f"{place.parts[-1]}_{column}")
    session.execute(f"CREATE INDEX {name} ON {session.dialect.table(*place.parts)} ({quote(column)})")


def _insert(session: Session, table: str, data: pa.Table) -> None:
    """Fill by INSERTs of many rows, each a transaction of its own."""
    for values in statements(session.dialect, data):
        session.execute(f"INSERT INTO {table} VALUES {values}")


def _insert_from_file(session: Session, table: str, data: pa.Table) -> None:
    """Fill through a Parquet file, for an engine that reads this machine's files."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        pq.write_table(data, path)
        session.execute(f"INSERT INTO {table} SELECT * FROM read_parquet({session.dialect.string(str(path))})")


FILLS: dict[str, Callable[[Session, str, pa.Table], None]] = {"duckdb": _insert_from_file}
"""URL schemes of engines in this process that are filled otherwise than by INSERTs."""

FILES_ONLY = frozenset({"spark", "sc"})
"""URL schemes of engines whose tables are files."""


def statements(dialect: Dialect, data: pa.Table) -> Iterator[str]:
    """The rows as ``(...), (...)``, STATEMENT_BYTES or a little more at a time, every value exact."""
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
    """Each value as the text of a literal, NULL for NULL.

    Integers and booleans stand as they are. All else is quoted text that the server reads as the column's type, because a
    bare 1.5 is a decimal to one engine and a double to another; Arrow writes a double with as many digits as tell it
    from its neighbours.
    """
    text = pc.cast(column, pa.string())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return text
    distinct = text.combine_chunks().dictionary_encode()
    quoted = pa.array([dialect.string(value) for value in distinct.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([quoted.take(distinct.indices)])


def _write_file(path: Path, data: pa.Table) -> Place:
    """Write a Parquet file that says of itself that it was made here."""
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
