"""What Delta Lake states of being written to: by commits of single tables."""

from __future__ import annotations

from typing import ClassVar, Literal

from dialects.alteration import Altering
from dialects.delta.altering import DeltaAltering
from dialects.duckdb.writing import DuckDBWriting


class DeltaWriting(DuckDBWriting):
    """How Delta tables, and those of Parquet with a pointer, are written."""

    ANALYZE = ""  # its readers plan by what stands in the commits
    WRITES_COMMITS = True
    altering: ClassVar[Altering] = DeltaAltering()
    MERGES_LITERALS = False
    FOLDS_NAMES = "all"  # as folders are found by their names
    NAME_LIMIT = (255, "bytes")  # of a file's name

    def refuse_name(self, name: str, of: Literal["table", "column"]) -> str:
        if of == "table" and (name in (".", "..") or any(character in name for character in r"/\%?#")):  # which a URL reads otherwise
            return "cannot be that of a folder which each reader of Delta finds"
        return super().refuse_name(name, of)
