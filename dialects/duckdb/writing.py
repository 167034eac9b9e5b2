"""What DuckDB states of being written to."""

from __future__ import annotations

from typing import ClassVar, Literal

from dialects.alteration import Altering
from dialects.duckdb.altering import DuckDBAltering
from dialects.writing import LineFormat, Loads, Writing


class DuckDBWriting(Writing):
    """How DuckDB is written to."""

    ANALYZE = "ANALYZE {table}"
    """https://duckdb.org/docs/stable/sql/statements/analyze"""
    LOADS: ClassVar[Loads] = "alone"
    MERGES_LITERALS: ClassVar[bool] = True
    """A statement takes about a millisecond, and a staging table several; its session ends with the merge, so that each merge makes it."""
    altering: ClassVar[Altering] = DuckDBAltering()
    FOLDS_NAMES: ClassVar[Literal["", "A to Z", "all"]] = "A to Z"
    """https://duckdb.org/docs/stable/sql/dialect/keywords_and_identifiers#case-sensitivity-of-identifiers"""
    WRITE_SETTINGS = ("SET TimeZone = 'UTC'",)
    STAGING_TABLE = "TEMPORARY TABLE"
    LINES: ClassVar[LineFormat] = LineFormat(between=",", null="", escapes=(('"', '""'),), quote='"')
    READS_FILES = True
