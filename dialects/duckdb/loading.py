"""How rows are loaded into DuckDB: from memory, and from files of lines.

https://duckdb.org/docs/stable/data/csv/overview
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from dialects.base import Dialect, Loading
from dialects.kinds import Kind
from dialects.times import BC

LONGEST_LINE = 1 << 30
"""Bytes of the longest line that is read from a file."""

SHORTEST_BUFFER = 2 << 20
"""Bytes that are read of a file at once, at least. DuckDB 1.5 takes sixteen times the longest line unless it is told how many."""


class DatabaseSession(Protocol):
    """What is asked of the session that rows are loaded by."""

    dialect: Dialect
    connection: Any

    def execute(self, sql: str) -> None:
        """Run a statement."""

    def translated(self) -> AbstractContextManager[None]:
        """Limit the time of the block, and raise the driver's errors as those of ``dialects.errors``."""


class DuckDBLoading(Loading):
    """How rows are written to a database in this process."""

    def __init__(self, session: DatabaseSession) -> None:
        self.session = session

    def write(self, sql: str) -> int:
        with self.session.translated():
            rows = self.session.connection.execute(sql).fetchall()
        return int(rows[0][0]) if rows else 0

    def analyze(self, table: str) -> str:
        self.session.execute(self.session.dialect.writing.ANALYZE.format(table=table))
        return ""

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> int:
        names = [self.session.dialect.names.quote(name) for name in columns]
        values = [f"UNHEX({name})" if kind.name == "binary" else name for name, kind in zip(names, columns.values(), strict=True)]
        with self.session.translated():
            self.session.connection.register("staged_rows", rows)
            try:
                insert = f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM staged_rows"
                [(count,)] = self.session.connection.execute(insert).fetchall()
            finally:
                self.session.connection.unregister("staged_rows")
        return int(count)

    def insertion(self, table: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[str | None]]) -> str:
        # Not by VALUES, of which each value takes twice as long.
        quote, literal = self.session.dialect.names.quote, self.session.dialect.names.literal
        lists = [f"UNNEST(CAST([{', '.join(map(literal, values))}] AS VARCHAR[]))" for values in zip(*rows, strict=True)]
        values = (f"UNHEX({one})" if kind.name == "binary" else one for one, kind in zip(lists, columns.values(), strict=True))
        return f"INSERT INTO {table} ({', '.join(map(quote, columns))}) SELECT {', '.join(values)}"

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        values, files = ", ".join(file_values(columns)), read_files(self.session.dialect, columns, paths)
        self.session.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {files}")


def read_files(dialect: Dialect, columns: Mapping[str, Kind], paths: Sequence[str]) -> str:
    """Return SQL of the table of texts that files of lines hold: ``c0`` and so on. https://duckdb.org/docs/stable/data/csv/overview"""
    longest = min(LONGEST_LINE, max([SHORTEST_BUFFER, *(Path(path).stat().st_size for path in paths)]))  # no line is longer than its file
    types = ", ".join(f"c{number}: 'VARCHAR'" for number in range(len(columns)))
    files = ", ".join(dialect.names.string_literal(path) for path in paths)
    return (
        f"READ_CSV([{files}], columns = {{{types}}}, auto_detect = false, header = false, delim = ',', quote = '\"', escape = '\"',"
        f" nullstr = '', allow_quoted_nulls = false, parallel = false, new_line = '\\n', max_line_size = {longest},"
        f" buffer_size = {longest})"
    )


def file_values(columns: Mapping[str, Kind]) -> list[str]:
    """Return SQL of the values of columns, by their kinds, of the texts in `read_files`."""
    return [_loaded(f"c{number}", kind) for number, kind in enumerate(columns.values())]


def _loaded(c: str, kind: Kind) -> str:
    """A value of a column of this kind, of its text in a file of lines."""
    if kind.name == "binary":
        return f"UNHEX({c})"
    if kind.name in ("date", "timestamp", "timestamptz"):  # the era follows the date
        return f"CASE WHEN {c} LIKE '%{BC}' THEN REGEXP_REPLACE({c}, '^(\\S+)(.*){BC}$', '\\1 (BC)\\2') ELSE {c} END"
    return c
