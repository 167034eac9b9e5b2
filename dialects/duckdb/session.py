"""A session of DuckDB, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dialects import errors
from dialects.base import ColumnBatch, Dialect, Loading, arrow_columns
from dialects.duckdb import settings
from dialects.duckdb.writing import DuckDBLoading
from dialects.session import InProcessSession

ARROW_ROWS = 65_536
"""Rows of one Arrow batch of a result that is streamed, here or on to files."""


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
            for batch in self.connection.sql(sql).to_arrow_reader(ARROW_ROWS):
                self._result_bytes += batch.nbytes
                yield arrow_columns(batch)

    def cancel(self) -> None:
        import duckdb

        with suppress(duckdb.ConnectionException):  # its thread has closed it meanwhile, so nothing runs
            self.connection.interrupt()

    def close(self) -> None:
        self.connection.close()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().splitlines()[0]
