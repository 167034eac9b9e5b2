"""List what the comparison of a column does not see: what its canonical kind and its settings level on either side.

This is the only place that says so. Whatever makes two values equal that their engines distinguish has its sentence here, and from here
it reaches the plan, the report and the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.canonical import FLOATS, TIMESTAMPS
from auditor.compare import tolerance
from auditor.model import SIDES, ColumnPlan, Leveling, NotCompared, Side
from dialects import Kind
from dialects.kinds import FREE_TEXT_KINDS

Levelled = tuple[Leveling, str]
"""How values are levelled, and a clause for a person that says what is not seen."""


def of_column(column: ColumnPlan) -> tuple[NotCompared, ...]:
    """Return what the comparison of a column does not see; an entry without a side holds on both."""
    by_side = {side: list(_of_side(column, side)) for side in SIDES}
    both = [levelled for levelled in by_side["source"] if levelled in by_side["target"]]
    entries: list[tuple[Side | None, Levelled]] = [(None, levelled) for levelled in both]
    entries += [(side, levelled) for side in SIDES for levelled in by_side[side] if levelled not in both]
    entries += [(None, levelled) for levelled in _by_settings(column)]
    return tuple(NotCompared(column=column.name, how=how, what=what, side=side) for side, (how, what) in entries)


def _of_side(column: ColumnPlan, side: Side) -> Iterator[Levelled]:
    """Yield what one side's values lose when they are compared as the column's kind."""
    native, other = column.native[side], column.native["target" if side == "source" else "source"]
    kind = column.fine.get(side, column.kind)  # within a tolerance, the scan's coarser kind decides nothing
    if native.name in FREE_TEXT_KINDS and kind.name not in FREE_TEXT_KINDS:
        if kind.name == "uuid":
            yield "folded", "case and hyphens are ignored"
        return
    yield from _of_number(kind, native)
    yield from _of_time(kind, native, other)
    if kind.name == "char":
        yield "padded", "trailing blanks are ignored"
    if native.name == "nested":
        yield "ignored", "the order of a struct's fields and the bounds of an array are ignored"
    elif kind.name == "json" and not column.by_value:
        yield "ignored", "blanks between the tokens of a document are ignored"
        if native.form == "ordered" and kind.form != "text":
            yield "ignored", "the order of a document's keys, and repeated keys except the last, are ignored"


def _of_number(kind: Kind, native: Kind) -> Iterator[Levelled]:
    if kind.name == "boolean" and native.name != "boolean" and (native.name, native.digits) != ("bit", 1):
        yield "folded", "every number except 0 counts as true"
    if kind.name == "float32" and native.name == "float64":
        yield "rounded", "doubles are rounded to single precision"
    yield from _of_number_as_float(kind, native)
    kept = {"integer": 0, "year": 0, "decimal": kind.scale, "rounded": kind.scale}.get(kind.name)
    if kept is not None and (native.name in FLOATS or (native.name == "decimal" and (native.scale is None or native.scale > kept))):
        yield "rounded", f"values are rounded to {kept} digits after the decimal point"


def _of_number_as_float(kind: Kind, native: Kind) -> Iterator[Levelled]:
    """Yield what an exact number loses as a float; decimals of few digits have a float each, so that none is lost."""
    precision = {"float64": ("double", 53, 15), "float32": ("single", 24, 6)}.get(kind.name)
    if precision is None:
        return
    name, bits, digits = precision
    if native.name == "integer":
        yield "rounded", f"whole numbers beyond 2^{bits} are rounded to {name} precision"
    if native.name == "decimal" and (native.digits is None or native.digits > digits):
        yield "rounded", f"digits beyond the {digits}th are rounded to {name} precision"


def _of_time(kind: Kind, native: Kind, other: Kind) -> Iterator[Levelled]:
    if kind.name == "date" and native.name in TIMESTAMPS:
        seconds = f", after rounding to seconds, {_halves(kind)}" if kind.rounding else ""
        yield "cut", f"the time of day is left out{seconds}"
    fraction = kind.scale if kind.name in TIMESTAMPS | {"time"} and native.name != "date" else None
    if fraction is not None and (native.scale is None or native.scale > fraction):
        digits = f"digits beyond {fraction} after the decimal point of the seconds"
        yield ("rounded", f"{digits} are rounded, {_halves(kind)}") if kind.rounding else ("cut", f"{digits} are cut")
    if native.name == "timestamp" and other.name == "timestamptz":
        yield "assumed", "times without a zone are read as UTC"


def _halves(kind: Kind) -> str:
    """Return where a half goes: ``a half up``, ``a half away from 2000``."""
    return f"a {kind.rounding.replace('from', 'away from')}"


def _by_settings(column: ColumnPlan) -> Iterator[Levelled]:
    """Yield what the audit's settings for the column level on both sides."""
    if column.trim:
        yield "ignored", "leading and trailing blanks are ignored"
    if column.case:
        yield "folded", f"the letters A to Z are compared in {column.case} case"
    for zone in column.zones.values():
        yield (
            "assumed",
            f"times are compared as the clocks of {zone} show them; when these are set back, two moments"
            " an hour apart show the same time and count as equal",
        )
    if column.null_as is not None:
        yield "ignored", f"NULL and the text {column.null_as!r} count as equal"
    if column.by_value:
        yield (
            "ignored",
            "documents are compared by value: blanks, the order of keys, repeated keys except the last, and the spelling of numbers and"
            " texts are ignored",
        )
    if column.tolerance:
        yield "ignored", f"values up to {column.tolerance} apart count as equal"
        if column.kind.name == "rounded":
            yield "ignored", f"floats beyond {tolerance.largest_distinguished(column.kind):.0e} may also equal neighbouring ones"
