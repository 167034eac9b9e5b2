"""Create and fill tables on live engines."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import duckdb

import dialects
from auditor.planning import times
from auditor.sql.literals import value_literal
from dialects import Kind, Session
from tests import lake
from tests.live import LiveEngine

ROWS = 500
"""Number of rows per INSERT."""

EPOCH = dt.datetime(1970, 1, 1)


@contextmanager
def open_writable(engine: LiveEngine) -> Iterator[Session]:
    """Open a session with write access for the block."""
    if engine.dialect in ("delta", "iceberg"):
        with lake.open_writable(engine.url) as session:
            yield session
        return
    is_asked = engine.dialect in ("duckdb", "clickhouse")
    url = engine.url + ("&" if "?" in engine.url else "?") + "access_mode=read_write" if is_asked else engine.url
    session = dialects.connect(url)
    try:
        yield session
    finally:
        session.close()


def make(
    engine: LiveEngine, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]], key: Sequence[str] = ()
) -> None:
    """Create a table, replacing any previous one, with the engine's native types of these kinds, and fill it."""
    with open_writable(engine) as session:
        dialect = session.dialect
        natives = ", ".join(f"{dialect.names.quote(column)} {dialect.types.native_type(kind)}" for column, kind in columns)
        session.execute(f"DROP TABLE IF EXISTS {dialect.names.quote(name)}")
        session.execute(f"CREATE TABLE {dialect.names.quote(name)} ({natives}{_primary_key_clause(dialect, key)})")
        _insert(session, name, columns, rows)


def insert(engine: LiveEngine, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows into a table that is there, whose columns are in this order."""
    with open_writable(engine) as session:
        _insert(session, name, columns, rows)


def _insert(session: Session, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]]) -> None:
    dialect = session.dialect
    for start in range(0, len(rows), ROWS):
        values = (
            "(" + ", ".join(value_literal(dialect, kind, value) for (_, kind), value in zip(columns, row, strict=True)) + ")"
            for row in rows[start : start + ROWS]
        )
        session.execute(f"INSERT INTO {dialect.names.quote(name)} VALUES {', '.join(values)}")


_SHARED: set[tuple[str, str]] = set()


def shared_table(engine: LiveEngine, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]], key: Sequence[str] = ()) -> str:
    """Return the name of a table with this content, created once per test session; tests must only read it."""
    name = "shared_" + hashlib.sha256(repr((list(columns), [tuple(row) for row in rows], list(key))).encode()).hexdigest()[:16]
    if (engine.url, name) not in _SHARED:
        make(engine, name, columns, rows, key)
        _SHARED.add((engine.url, name))
    return name


def _primary_key_clause(dialect: dialects.Dialect, key: Sequence[str]) -> str:
    """Return a PRIMARY KEY clause on engines whose catalogue lists primary keys, otherwise ''."""
    if not key or not has_primary_keys(dialect):
        return ""
    return f", PRIMARY KEY ({', '.join(dialect.names.quote(column) for column in key)})"


def has_primary_keys(dialect: dialects.Dialect) -> bool:
    """Return whether an engine's catalogue lists primary keys."""
    try:
        dialect.template("primary_key")
    except LookupError:
        return False
    return True


def execute(engine: LiveEngine, *statements: str) -> None:
    """Run statements with write access."""
    with open_writable(engine) as session:
        for statement in statements:
            session.execute(statement)


def query(engine: LiveEngine, sql: str) -> list[tuple[Any, ...]]:
    """Run a query and return its rows."""
    session = dialects.connect(engine.url)
    try:
        return session.query(sql)
    finally:
        session.close()


def postgres_version(engine: LiveEngine) -> int:
    """Return the version of a PostgreSQL as a number, 150004 for 15.4."""
    return int(query(engine, "SHOW server_version_num")[0][0])


def casts_nanoseconds() -> bool:
    """Return whether this DuckDB casts TIMESTAMP_NS to TIMESTAMP_MS, as it does from version 2."""
    return int(duckdb.__version__.partition(".")[0]) >= 2


def load_zones(engine: LiveEngine, names: Sequence[str]) -> None:
    """Give a MySQL server the rules of zones; the other engines have theirs."""
    if engine.dialect != "mysql":
        return
    for name in names:
        number = 9_000 + int(hashlib.sha256(name.encode()).hexdigest()[:5], 16)
        seconds = [(at, round((shown - at).total_seconds())) for at, shown in times.clocks(name).items()]
        offsets = sorted({offset for _, offset in seconds})
        begins = [(0, seconds[0][1]), *(
            (round((at - EPOCH).total_seconds()), offset) for (_, last), (at, offset) in pairwise(seconds) if offset != last
        )]  # fmt: skip
        kinds = ", ".join(f"({number}, {index}, {offset}, 0, '')" for index, offset in enumerate(offsets))
        changes = ", ".join(f"({number}, {at}, {offsets.index(offset)})" for at, offset in begins)
        execute(
            engine,
            f"DELETE FROM mysql.time_zone_name WHERE Name = '{name}'",
            *(f"DELETE FROM mysql.time_zone{part} WHERE Time_zone_id = {number}" for part in ("", "_transition", "_transition_type")),
            f"INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES ({number}, 'N')",
            f"INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('{name}', {number})",
            "INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation)"
            f" VALUES {kinds}",
            f"INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id) VALUES {changes}",
        )
