"""What two schemas of a source's table differ in, which differences keep all values, and which break those who read the table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from auditor.canonical import holds
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from dialects import Kind
from dialects.kinds import FREE_TEXT_KINDS, parse_native

CLOCKS = {"timestamp", "timestamptz"}

SIZED = FREE_TEXT_KINDS | {"binary"}
"""Kinds of which one type holds longer values than another one."""

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
"""MySQL's types of integers, the narrowest first. https://dev.mysql.com/doc/refman/9.7/en/integer-types.html"""

_CAPACITIES = {"tiny": 255, "": 65_535, "medium": 16_777_215, "long": 4_294_967_295}
"""Bytes that MySQL's texts and blobs hold, by what their names begin with.
https://dev.mysql.com/doc/refman/9.7/en/storage-requirements.html"""

_LABEL = re.compile(r"'(?:[^']|'')*+'")
"""A label of ENUM or SET, in quotes."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One thing in which two schemas differ."""

    sentence: str
    breaks_readers: bool
    """Whether who reads the table misses a column, or values that a column held."""


def find_differences(old: TableSchema, new: TableSchema, old_names: Mapping[str, str]) -> list[SchemaDifference]:
    """Return what differs; ``old_names`` are the names that columns of the new schema had in the old one, of those that are not new."""
    return list(_differences(old, new, old_names))


def _differences(old: TableSchema, new: TableSchema, old_names: Mapping[str, str]) -> Iterator[SchemaDifference]:
    before = {column.name: column for column in old.columns}
    stays = set(old_names.values())
    for name in before:
        if name not in stays:
            yield SchemaDifference(f"{name} was dropped", True)
    for column in new.columns:
        if (origin := old_names.get(column.name)) is None:
            yield SchemaDifference(f"{column.name} ({column.type}) was added", False)
            continue
        if origin.lower() != column.name.lower():
            yield SchemaDifference(f"{origin} is called {column.name}", True)
        if before[origin].type != column.type:
            is_narrowed = not holds_all(before[origin], column)
            lost = ", which does not hold all that it held" if is_narrowed else ""
            yield SchemaDifference(f"{column.name} is {column.type} and was {before[origin].type}{lost}", is_narrowed)
        if is_computed_anew(before[origin], column):
            by, was = (one.computed or "the source" for one in (column, before[origin]))
            yield SchemaDifference(f"{column.name} is computed by {by}, and was by {was}, of which columns may have other values now", True)
        if before[origin].nullable != column.nullable:
            yield SchemaDifference(f"{column.name} {'may be' if column.nullable else 'is never'} NULL", False)
    if [old_names.get(name) for name in new.key] != list(old.key):
        yield SchemaDifference(f"the key is ({', '.join(new.key)}) and was ({', '.join(old.key)})", True)
    order = [old_names[column.name] for column in new.columns if column.name in old_names]
    if order != [name for name in before if name in stays]:
        yield SchemaDifference("the columns have another order", False)


def is_computed_anew(before: ColumnSchema, after: ColumnSchema) -> bool:
    """Return whether a column's values may be others because the pipeline computes them otherwise, or from columns of other types."""
    if before.computed != after.computed:
        return True
    read, now_read = (dict(one.split(" ", 1) for one in column.inputs) for column in (before, after))
    return read.keys() != now_read.keys() or not all(_keeps_text(native, now_read[name]) for name, native in read.items())


def _keeps_text(before: str, after: str) -> bool:
    """Return whether a column's change from one type to another keeps all values as expressions read them."""
    old, new = (source_kind(ColumnSchema("", native, True)) for native in (before, after))
    return old is not None and new is not None and old.scale == new.scale and keeps_values(old, new)


def holds_all(before: ColumnSchema, after: ColumnSchema) -> bool:
    """Return whether a column's new type holds all values that the old one held."""
    old, new = source_kind(before), source_kind(after)
    if old is None or new is None or not keeps_values(old, new):
        return False
    if old.name == new.name and old.name in ("enum", "set"):
        return set(_LABEL.findall(before.type)) <= set(_LABEL.findall(after.type))
    if {_type_name(before.type), _type_name(after.type)} <= set(_INTEGERS):
        return _holds_integers(before.type.lower(), after.type.lower())
    sizes = [_capacity(one.type) for one in (before, after)]
    return sizes[0] is None or sizes[1] is None or sizes[1] >= sizes[0]


def _holds_integers(before: str, after: str) -> bool:
    old, new = (_INTEGERS.index(_type_name(native)) for native in (before, after))
    if "unsigned" in before and "unsigned" not in after:
        return new > old
    return new >= old and ("unsigned" in before or "unsigned" not in after)


def _capacity(native: str) -> int | None:
    """Return how many bytes a type of texts or binary strings holds, four for each character of a stated length; None of other types."""
    name, length = _type_name(native), _length(native)
    if name in ("char", "varchar"):
        return 4 * length if length else None
    if name in ("binary", "varbinary"):
        return length or None
    return _CAPACITIES.get(name[:-4]) if name.endswith(("text", "blob")) else None


def _type_name(native: str) -> str:
    return native.lower().partition("(")[0].partition(" ")[0]


def keeps_values(before: Kind, after: Kind) -> bool:
    """Return whether the source kept all values when it changed a column from one kind to another."""
    if before.name == after.name == "bit":
        return (after.digits or 1) >= (before.digits or 1)
    if {before.name, after.name} == CLOCKS:  # converted in the zone of a session
        return False
    return holds(after, before)


def is_narrower(before: Kind, after: Kind) -> bool:
    """Return whether a kind has some values of another one, so that the source kept those that are there, if it has all of these.

    Of exact numbers alone: what a fraction of a second, or a float, loses is not told by every engine's types.
    """
    return before.name == "decimal" and after.name in ("decimal", "integer")


def is_longer(one: str, other: str) -> bool:
    """Return whether a type of texts, or binary strings, holds longer ones than another: one that states no length holds all."""
    new, old = (_length(text) for text in (one, other))
    return old > 0 and not 0 < new <= old


def _length(native: str) -> int:
    """Return the number in a type of texts or binary strings; 0 if it states none."""
    parsed = parse_native(native.lower().partition(" character set")[0])
    return parsed.number(0, 0) if parsed else 0
