"""A session of DuckDB, in this process, and how it reads files of lines.

https://duckdb.org/docs/stable/data/csv/overview
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dialects import errors
from dialects.base import ColumnBatch, Dialect, Loading, arrow_columns
from dialects.duckdb import settings
from dialects.kinds import Kind
from dialects.session import InProcessSession
from dialects.times import BC

LONGEST_LINE = 1 << 30
"""Bytes of the longest line that is read from a file."""


class DuckDBSession(InProcessSession):
    """One connection of DuckDB."""

    def __init__(self, dialect: Dialect, server: str, connection: Any, timeout: float) -> None:
        super().__init__(dialect, server, timeout)
        self.connection = connection
        self.loading: Loading = DuckDBLoading(self)

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        super().pin(statement_timeout, lock_timeout)
        try:
            settings.restore(self.query)
        except errors.AuditorError:
            self.close()
            raise
        self.statements = 0

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Limit the time of the block, and raise the driver's errors as those of ``dialects.errors``."""
        import duckdb

        try:
            with self.time_limit():
                try:
                    yield
                except duckdb.InterruptException:
                    raise errors.StatementCancelled from None
                except OSError as error:  # what Arrow raises for an interrupt while a result is read
                    if "INTERRUPT" not in str(error):
                        raise
                    raise errors.StatementCancelled from None
        except (duckdb.CatalogException, duckdb.BinderException) as error:
            raise errors.NoSuchObject(first_line(error)) from error
        except duckdb.Error as error:
            missing = "No files found" in str(error)
            raise (errors.NoSuchObject if missing else errors.StatementRefused)(first_line(error)) from error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.translated():
            rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        self._result_bytes += sum(len(str(value)) for row in rows for value in row)
        return rows

    def execute(self, sql: str) -> None:
        with self.translated():
            self.connection.execute(sql)

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        with self.translated():
            for batch in self.connection.sql(sql).to_arrow_reader(65536):
                self._result_bytes += batch.nbytes
                yield arrow_columns(batch)

    def cancel(self) -> None:
        self.connection.interrupt()

    def close(self) -> None:
        self.connection.close()


class DuckDBLoading(Loading):
    """How rows are written to a database in this process."""

    def __init__(self, session: DuckDBSession) -> None:
        self.session = session

    def write(self, sql: str) -> int:
        with self.session.translated():
            rows = self.session.connection.execute(sql).fetchall()
        return int(rows[0][0]) if rows else 0

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> None:
        names = [self.session.dialect.names.quote(name) for name in columns]
        values = [f"UNHEX({name})" if kind.name == "binary" else name for name, kind in zip(names, columns.values(), strict=True)]
        with self.session.translated():
            self.session.connection.register("staged_rows", rows)
            try:
                self.session.connection.execute(f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM staged_rows")
            finally:
                self.session.connection.unregister("staged_rows")

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        values, files = ", ".join(file_values(columns)), read_files(self.session.dialect, columns, paths)
        self.session.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {files}")


def read_files(dialect: Dialect, columns: Mapping[str, Kind], paths: Sequence[str]) -> str:
    """Return SQL of the table of texts that files of lines hold: ``c0`` and so on. https://duckdb.org/docs/stable/data/csv/overview"""
    types = ", ".join(f"c{number}: 'VARCHAR'" for number in range(len(columns)))
    files = ", ".join(dialect.names.string_literal(path) for path in paths)
    return (
        f"READ_CSV([{files}], columns = {{{types}}}, auto_detect = false, header = false, delim = ',', quote = '\"', escape = '\"',"
        f" nullstr = '', allow_quoted_nulls = false, parallel = false, new_line = '\\n', max_line_size = {LONGEST_LINE})"
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


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().splitlines()[0]
