"""What PostgreSQL states of being written to, and rows in the text format of its COPY.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from dialects.kinds import Kind
from dialects.text_lines import lines_in_utf8, text_lines
from dialects.writing import LineFormat, Loads, Writing

ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""Characters that mean something in COPY's text format, and how they are written, the backslash first.
https://www.postgresql.org/docs/current/sql-copy.html"""


LINES = LineFormat(between="\t", null="\\N", escapes=ESCAPES, binary=("\\\\x", ""))
"""Rows in COPY's text format."""


class PostgresWriting(Writing):
    """How PostgreSQL is written to."""

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
    MERGES_RANGES: ClassVar[bool] = True
    CHANGES_TABLES: ClassVar[bool] = True
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
    LINES: ClassVar[LineFormat] = LINES
    LOCK_WRITERS: ClassVar[str] = "LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"
    """Readers continue. https://www.postgresql.org/docs/current/explicit-locking.html"""
    CARRIES_ON_RENAME: ClassVar[bool] = True

    def rows_differ(self, pairs: Sequence[tuple[str, str]]) -> str:
        # Byte by byte, of any type: https://www.postgresql.org/docs/current/functions-comparisons.html#COMPOSITE-TYPE-COMPARISON
        first, other = (", ".join(names) for names in zip(*pairs, strict=True))
        return f"record_image_ne(ROW({first}), ROW({other}))"


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
