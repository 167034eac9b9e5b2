"""Find the columns of a table that its connection masks, whatever the audit says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from dialects import Origins, Place


def masked_columns(patterns: Iterable[str], place: Place, columns: Iterable[str]) -> frozenset[str]:
    """Return the columns of a table, in lower case, that one of the patterns (``table.column``) masks.

    Capitals do not matter. Names of tables are compared from their last part, as far as both have parts, so that a pattern with a schema
    also masks a table that is named without one. For files the table is the name of the file or the folder without its extension; a path
    with wildcards can mean any file, so for it the pattern's table is ignored.
    """
    names = [column.lower() for column in columns]
    split = [pattern.lower().rpartition(".") for pattern in patterns]
    wanted = [column for table, _, column in split if _is_table(table.split("."), place)]
    return frozenset(name for name in names if any(fnmatchcase(name, column) for column in wanted))


def is_named(patterns: Iterable[str], place: Place) -> bool:
    """Return whether one of the patterns (``table`` or ``schema.table``) names this table."""
    return any(_is_table(pattern.lower().split("."), place) for pattern in patterns)


def is_masked_table(patterns: Iterable[str], place: Place) -> bool:
    """Return whether one of the patterns masks columns of this table."""
    return is_named((pattern.rpartition(".")[0] for pattern in patterns), place)


def find_gap(patterns: Iterable[str], label: str, origins: Origins) -> str:
    """Return why a table, called ``label``, may show masked columns of other tables under other names; empty if it does not."""
    patterns = tuple(patterns)
    read = [Place(names) for names in origins.tables if is_masked_table(patterns, Place(names))]
    if origins.is_view and read:
        return f"{label} is a view, and reads {read[0]}, of which columns are masked: they are masked here under the same names alone"
    if patterns and origins.unknown:
        return f"{label}: {origins.unknown}, so columns that are masked elsewhere are masked here by its own name alone"
    return ""


def find_typing_errors(patterns: Iterable[str], place: Place, columns: Iterable[str]) -> list[str]:
    """Return the patterns that name this table, not a pattern of tables, and none of its columns."""
    names = [column.lower() for column in columns]
    misspelt = []
    for pattern in patterns:
        table, _, column = pattern.lower().rpartition(".")
        is_named = not any(mark in table for mark in "*?[") and _is_table(table.split("."), place)
        if is_named and not any(fnmatchcase(name, column) for name in names):
            misspelt.append(pattern)
    return misspelt


def _is_table(pattern: Sequence[str], place: Place) -> bool:
    if place.path is not None:
        path = PurePosixPath(place.path.lower())
        return any(mark in place.path for mark in "*?[") or fnmatchcase(path.name.partition(".")[0], pattern[-1])
    parts = [part.lower() for part in place.parts]
    return all(fnmatchcase(part, wanted) for part, wanted in zip(reversed(parts), reversed(pattern), strict=False))


def are_mentioned(masks: Iterable[str], sql: str) -> bool:
    """Return whether SQL contains the name of a masked column, which makes its result a masked value."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) for name in masks)
