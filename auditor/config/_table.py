"""Which tables an audit reads: one by its connection and name, or several that are the shards of a source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from auditor.config._base import Strict
from dialects import Place

_QUOTED = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`'
"""A quoted part of a table's name."""


def _unquote(part: str) -> str:
    return part[1:-1].replace(part[0] * 2, part[0]) if re.fullmatch(_QUOTED, part) else part


def table_name(*parts: str) -> str:
    """Return a table's name of these parts, as ``table`` takes it: one with other characters than letters, digits and _ is quoted."""
    return ".".join(part if re.fullmatch(r"\w+", part) else f'"{part.replace(chr(34), chr(34) * 2)}"' for part in parts)


class TableRef(Strict):
    """A table of a connection, or files by their path; for the target also its names of the columns."""

    connection: str
    """The connection's name."""
    table: str
    """The table's name, with its schema if need be, or the path of files."""
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    """The format of the files at a path; by default that of the file's ending, else Parquet."""
    version: int | None = None
    """The version of a Delta or Iceberg table that is read; by default the newest."""
    timestamp: str | None = None
    """The time whose version of a Delta or Iceberg table is read, instead of ``version``."""
    columns: dict[str, str] = {}
    """This side's name of a column, by the source's name."""

    @property
    def label(self) -> str:
        """The text ``connection: table``."""
        return f"{self.connection}: {self.table}"

    @property
    def place(self) -> Place:
        """The table's name split at its dots, or a path if it has a slash or a file extension, or a format is given.

        A part in double quotes or backticks, doubled inside, may have any character: ``shop."orders/2024"``.
        """
        plain = re.sub(_QUOTED, "", self.table)
        is_path = self.format or "/" in plain or re.search(r"\.(parquet|csv)(\.gz)?$", plain)
        if not is_path:
            parts = tuple(_unquote(part) for part in re.findall(rf"{_QUOTED}|[^.]+", self.table))
            return Place(parts, version=self.version, timestamp=self.timestamp)
        ending = "csv" if re.search(r"\.csv(\.gz)?$", self.table) else "parquet"
        return Place((), self.table, self.format or ending, self.version, self.timestamp)


FORMS = ("one table", "several shards")
"""The forms of a source, as they stand in the places of pydantic's errors."""


def _form(value: Any) -> str:
    return FORMS[isinstance(value, list | tuple)]


Source = Annotated[
    Annotated[TableRef, Tag(FORMS[0])] | Annotated[tuple[TableRef, ...], Field(min_length=2), Tag(FORMS[1])], Discriminator(_form)
]
"""One table, or the tables that together are the source."""


def check_shards(shards: Sequence[TableRef]) -> None:
    """Raise ValueError for shards that are the same table, or name columns, which only a target does."""
    labels = [shard.label for shard in shards]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ValueError(f"the shard {twice} occurs twice, so that its rows would count twice; remove one")
    if any(shard.columns for shard in shards):
        raise ValueError("columns: belongs to the target; the shards of a source have the same names of columns")
