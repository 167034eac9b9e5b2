"""How rows are loaded into PostgreSQL: by COPY, in its text format.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dialects.kinds import Kind
from dialects.postgres.writing import LINES
from dialects.session import DriverLoading
from dialects.text_lines import lines_in_utf8, text_lines


class PostgresLoading(DriverLoading):
    """How rows are written over psycopg2."""

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> int:
        names = ", ".join(self.session.dialect.names.quote(name) for name in columns)
        with self.session.waiting(), self.session.connection.cursor() as cursor:
            cursor.copy_expert(f"COPY {table} ({names}) FROM STDIN", copy_text(columns, rows))
            count: int = cursor.rowcount
        self.session.statements += 1
        return count

    def insertion(self, table: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[str | None]]) -> str:
        quote, literal = self.session.dialect.names.quote, self.session.dialect.names.literal
        prefixes = ["\\x" if kind.name == "binary" else "" for kind in columns.values()]
        lines = (
            ", ".join(literal(None if text is None else prefix + text) for prefix, text in zip(prefixes, row, strict=True)) for row in rows
        )
        return f"INSERT INTO {table} ({', '.join(map(quote, columns))}) VALUES ({'), ('.join(lines)})"

    def analyze(self, table: str) -> str:
        notices = self.session.connection.notices
        notices.clear()
        super().analyze(table)
        # A table of another owner is skipped with a warning. https://www.postgresql.org/docs/current/sql-analyze.html
        return " ".join(notice.strip() for notice in notices)

    def load_lines(self, table: str, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        with self.session.connection.cursor() as cursor:
            stream = LineStream(blocks)
            try:
                with self.session.waiting():
                    cursor.copy_expert(f"COPY {table} ({', '.join(columns)}) FROM STDIN", stream, size=1 << 18)
            except Exception:
                if stream.failure is not None:
                    raise stream.failure from None
                raise
        self.session.statements += 1


class LineStream(io.RawIOBase):
    """A stream of bytes from which COPY reads blocks of lines."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        super().__init__()
        self._blocks = iter(blocks)
        self._block = memoryview(b"")
        self.failure: BaseException | None = None
        """What the blocks failed with, of which COPY reports only that it failed."""

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, or without it those that are left of a block; none at the end."""
        while not self._block:
            try:
                block = next(self._blocks, None)
            except BaseException as error:
                self.failure = error
                raise
            if block is None:
                return b""
            self._block = memoryview(block)
        taken, self._block = (self._block, memoryview(b"")) if size < 0 else (self._block[:size], self._block[size:])
        return bytes(taken)


def copy_text(columns: Mapping[str, Kind], rows: Any) -> io.BytesIO:
    """Return the rows of an Arrow table of texts in COPY's text format; see ``Session.load``."""
    return io.BytesIO(lines_in_utf8(text_lines(columns, rows, LINES)))
