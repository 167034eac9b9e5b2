"""How PostgreSQL is written to: how rows are loaded, by COPY in its text format, and what it states of being written to.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from dialects.kinds import Kind
from dialects.session import DriverLoading
from dialects.text_lines import lines_in_utf8, text_lines
from dialects.writing import LineFormat, Loads, Writing

ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""Characters that mean something in COPY's text format, and how they are written, the backslash first.
https://www.postgresql.org/docs/current/sql-copy.html"""

LINES = LineFormat(between="\t", null="\\N", escapes=ESCAPES, binary=("\\\\x", ""))
"""Rows in COPY's text format."""


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


class PostgresWriting(Writing):
    """How PostgreSQL is written to."""

    ANALYZE = "ANALYZE {table}"
    """https://www.postgresql.org/docs/current/sql-analyze.html"""

    def __init__(self, engine: str, *, merges_at_once: bool = True) -> None:
        super().__init__(engine)
        self.MERGES_AT_ONCE = merges_at_once
        """From PostgreSQL 15."""

    NAME_LIMIT: ClassVar[tuple[int, Literal["bytes", "characters"]] | None] = (63, "bytes")
    """Longer names are cut. https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS"""
    OWN_COLUMNS: ClassVar[frozenset[str]] = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
    """https://www.postgresql.org/docs/current/ddl-system-columns.html"""
    LOADS: ClassVar[Loads] = "side by side"
    MERGES_BY_UPDATE: ClassVar[bool] = True
    WRITE_SETTINGS: ClassVar[Sequence[str]] = (
        "SET client_encoding TO 'UTF8'",
        "SET standard_conforming_strings TO on",
        "SET TimeZone TO 'UTC'",
        "SET DateStyle TO 'ISO, YMD'",
        "SET IntervalStyle TO 'postgres'",
        "SET bytea_output TO 'hex'",
        "SET extra_float_digits TO 1",
    )
    BEGIN_WRITES: ClassVar[Sequence[str]] = ("BEGIN ISOLATION LEVEL READ COMMITTED", "SET CONSTRAINTS ALL IMMEDIATE")
    """A deferred constraint would fail at COMMIT, after every statement looked right."""
    OVERRIDES_IDENTITY: ClassVar[str] = "OVERRIDING SYSTEM VALUE "
    STAGING_TABLE = "UNLOGGED TABLE"
    MERGE_SETTINGS: ClassVar[Sequence[str]] = ("SET enable_hashjoin TO off", "SET random_page_cost TO 1.1")
    """The planner knows nothing of a staging table, and would join it by a hash of the whole target in place of the index of its key.
    As long as a page read through an index counts four times a page of a scan, it reads all of a target's index in order, too, where a
    fiftieth of the keys are merged; that takes three times as long as to look these up.
    https://www.postgresql.org/docs/current/runtime-config-query.html#GUC-RANDOM-PAGE-COST"""
    LOCK_POSITIONS: ClassVar[str] = "SELECT pg_advisory_xact_lock({number})"
    """https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS"""
    LINES: ClassVar[LineFormat] = LINES
    LOCK_WRITERS: ClassVar[str] = "LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"
    """Readers continue. https://www.postgresql.org/docs/current/explicit-locking.html"""
    CARRIES_ON_RENAME: ClassVar[bool] = True

    def rows_differ(self, pairs: Sequence[tuple[str, str]]) -> str:
        # Byte by byte, of any type: https://www.postgresql.org/docs/current/functions-comparisons.html#COMPOSITE-TYPE-COMPARISON
        first, other = (", ".join(names) for names in zip(*pairs, strict=True))
        return f"record_image_ne(ROW({first}), ROW({other}))"
