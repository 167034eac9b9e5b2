"""Making, filling and dropping tables on live engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dialects
from dialects import Kind, Session
from tests.engines import LiveEngine
from tests.values import literal

ROWS = 500
"""Rows of one INSERT."""


@contextmanager
def writing(engine: LiveEngine) -> Iterator[Session]:
    """A session that may write."""
    url = engine.url + ("&" if "?" in engine.url else "?") + "access_mode=read_write" if engine.dialect == "duckdb" else engine.url
    session = dialects.connect(url)
    try:
        yield session
    finally:
        session.close()


def make(
    engine: LiveEngine, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]], key: Sequence[str] = ()
) -> None:
    """Make a table anew with the engine's native types of these kinds, and fill it."""
    with writing(engine) as session:
        dialect = session.dialect
        natives = ", ".join(f"{dialect.quote(column)} {dialect.native_type(kind)}" for column, kind in columns)
        session.execute(f"DROP TABLE IF EXISTS {dialect.quote(name)}")
        session.execute(f"CREATE TABLE {dialect.quote(name)} ({natives}{_key(dialect, key)})")
        for start in range(0, len(rows), ROWS):
            values = (
                "(" + ", ".join(literal(dialect, kind, value) for (_, kind), value in zip(columns, row, strict=True)) + ")"
                for row in rows[start : start + ROWS]
            )
            session.execute(f"INSERT INTO {dialect.quote(name)} VALUES {', '.join(values)}")


def _key(dialect: dialects.Dialect, key: Sequence[str]) -> str:
    """A primary key, on engines whose catalogue has them."""
    if not key or not _has_keys(dialect):
        return ""
    return f", PRIMARY KEY ({', '.join(dialect.quote(column) for column in key)})"


def _has_keys(dialect: dialects.Dialect) -> bool:
    try:
        dialect.template("primary_key")
    except LookupError:
        return False
    return True


def execute(engine: LiveEngine, *statements: str) -> None:
    """Run statements that change something."""
    with writing(engine) as session:
        for statement in statements:
            session.execute(statement)


def query(engine: LiveEngine, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    session = dialects.connect(engine.url)
    try:
        return session.query(sql)
    finally:
        session.close()
