"""What Iceberg states of being written to: by commits of single tables."""

from __future__ import annotations

from typing import ClassVar, Literal

from dialects.alteration import Altering
from dialects.duckdb.writing import DuckDBWriting
from dialects.iceberg.altering import IcebergAltering


class IcebergWriting(DuckDBWriting):
    """How Iceberg tables are written."""

    ANALYZE = ""  # its readers plan by what stands in the metadata
    WRITES_COMMITS = True
    altering: ClassVar[Altering] = IcebergAltering()
    MERGES_LITERALS = False
    FOLDS_NAMES = "all"  # as DuckDB, which reads the tables, folds names
    NAME_LIMIT = (255, "bytes")  # of a folder's name

    def refuse_name(self, name: str, of: Literal["table", "column"]) -> str:
        if of == "table" and (not name.strip(".") or any(character in name for character in r"./\%?#")):  # which catalogues read otherwise
            return "cannot be that of a table which each catalogue finds"
        return super().refuse_name(name, of)
