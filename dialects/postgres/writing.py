"""What PostgreSQL states of being written to, and the text format of its COPY.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from dialects.writing import LineFormat, Loads, Writing

ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""Characters that mean something in COPY's text format, and how they are written, the backslash first.
https://www.postgresql.org/docs/current/sql-copy.html"""


LINES = LineFormat(between="\t", null="\\N", escapes=ESCAPES, binary=("\\\\x", ""))
"""Rows in COPY's text format."""


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
    MERGE_SETTINGS: ClassVar[Sequence[str]] = ("SET enable_hashjoin TO off",)
    """The planner knows nothing of a staging table, and would join it by a hash of the whole target in place of the index of its key.
    https://www.postgresql.org/docs/current/runtime-config-query.html#RUNTIME-CONFIG-QUERY-ENABLE"""
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
