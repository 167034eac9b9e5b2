"""A table as it should be made on an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dialects import Kind


@dataclass(frozen=True, slots=True)
class DefinedColumn:
    """A column as it should be."""

    name: str
    type: str
    """Its type on the engine."""
    kind: Kind
    """The canonical kind of the values that it must hold."""
    nullable: bool
    comment: str = ""


@dataclass(frozen=True, slots=True)
class DefinedTable:
    """A table as it should be."""

    columns: tuple[DefinedColumn, ...]
    key: tuple[str, ...]
    """The columns of its primary key, in order; empty if it has none."""
    left_out: Mapping[str, str]
    """Why columns of the source have no place in it, by their names."""
    comment: str = ""
