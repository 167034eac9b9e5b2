"""What the method counts measures of each column: the names, their SQL, and what the measured texts mean.

A measure is a canonical text on both sides. Counts and sums of several chunks add up, least and greatest values fold, so a
partition may come in pieces. A sum is one of exact numbers: floats have none, because it would depend on the rows' order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Literal

from auditor import canonical
from auditor.model import ColumnPlan, Plan, Side
from dialects import Dialect, Kind
from dialects._kinds import FREE_TEXT

Family = Literal["number", "float", "rounded", "moment", "clock", "truth", "fixed", "text"]

NAMES: dict[Family, tuple[str, ...]] = {
    "number": ("nulls", "sum", "min", "max"),
    "float": ("nulls", "min", "max"),
    "rounded": ("nulls", "sum", "min", "max"),
    "moment": ("nulls", "min", "max"),
    "clock": ("nulls", "min", "max"),
    "truth": ("nulls", "true"),
    "fixed": ("nulls",),
    "text": ("nulls", "characters"),
}
"""The measures of a column, by what its values are."""

FOLDED = ("min", "max")
"""Measures of which several chunks' are one of them; all others add up."""

_NUMBERS = frozenset({"integer", "decimal", "year", "bit"})
_MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
_EXACT = Context(prec=2000, traps=[])
BIG = Kind("decimal", 38)
"""What a sum is taken for: a number of the most digits, of which only the compared ones are said."""

_FLOAT = re.compile(r"(-?\d+)p(-?\d+)")
_CLOCK = re.compile(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_MOMENT = re.compile(r"(\d+)-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d(?:\.\d+)?))?( BC)?")
_BEYOND = {"-infinity": -1, "infinity": 1, "nan": 2}
"""Values beyond all numbers, and where they stand to these: engines put NaN last."""


def family(column: ColumnPlan) -> Family:
    """What a column's values are, on both sides by their own types, so that both can measure the same."""
    kind, native = column.kind.name, {n.name for n in column.native.values()}
    if column.null_as is not None:
        return "text"  # a value may stand for NULL on one side only
    if kind in ("integer", "decimal", "year") and native <= _NUMBERS:
        return "number"
    if kind in canonical.FLOATS and native <= canonical.FLOATS:
        return "float"
    if kind == "rounded" and native <= _NUMBERS | canonical.FLOATS:
        return "rounded"
    if kind in _MOMENTS and native <= _MOMENTS:
        return "moment"
    if kind == "time" and native == {"time"}:
        return "clock"
    if kind == "boolean" and not native & FREE_TEXT:
        return "truth"
    return "fixed" if kind in ("uuid", "bit") and not native & FREE_TEXT else "text"


def measures(column: ColumnPlan) -> tuple[str, ...]:
    """The measures of a column under the counts method, the same on both sides."""
    return NAMES[family(column)]


def measure_names(plan: Plan) -> list[str]:
    """The measures of a counts summary for a person, in the result's order: ``price sum``."""
    return [f"{column.name} {name}" for column in plan.columns for name in measures(column)] if plan.method == "counts" else []


def result_columns(plan: Plan) -> list[str]:
    """The names of the measures in a summary's result, in order."""
    return [f"{name}_{index}" for index, column in enumerate(plan.columns) for name in measures(column)]


# SQL


def fragments(plan: Plan, side: Side, dialect: Dialect, texts: Sequence[str]) -> dict[str, str]:
    """The holes of the statement; ``texts`` is SQL of the columns' canonical texts."""
    columns: list[str] = []
    folded: list[str] = []
    wanted: list[str] = []
    for index, (column, text) in enumerate(zip(plan.columns, texts, strict=True)):
        columns += _columns(column, side, dialect, index, text)
        for name in measures(column):
            folded.append(f"{_folded(name, column, side, dialect, index)} AS {name}_{index}")
            wanted.append(f"{_told(name, column, side, dialect, f'm.{name}_{index}')} AS {name}_{index}")
    found = {"columns": ",\n      ".join(columns), "folded": ",\n    ".join(folded), "measures": ",\n  ".join(wanted)}
    return {**found, "partition": "0"} if plan.partitioning.strategy == "whole" else found


def _columns(column: ColumnPlan, side: Side, dialect: Dialect, index: int, text: str) -> list[str]:
    """What is taken of a row: ``v`` the value as it is stored, and what is added up: ``d``, where it is not the value itself."""
    kind, expression = family(column), column.expression[side]
    if kind == "text":
        counted = text if column.null_as is not None else expression
        return [f"{counted} AS v{index}", f"{dialect.length(text)} AS d{index}"]
    if kind == "truth":
        return [f"{expression} AS v{index}", f"CASE WHEN {text} = '1' THEN 1 ELSE 0 END AS d{index}"]
    value = dialect.number(expression, column.native[side]) if kind == "number" else expression
    summed = addend(column, side, dialect, text) if "sum" in measures(column) else expression
    return [f"{value} AS v{index}", *([f"{summed} AS d{index}"] if summed != expression else [])]


def addend(column: ColumnPlan, side: Side, dialect: Dialect, text: str) -> str:
    """SQL of a number as both sides hold it, exactly: of a side with more digits than are compared, the rounded one."""
    native, expression = column.native[side], column.expression[side]
    if native.name in canonical.FLOATS:
        return _units(expression, column.kind.scale or 0, dialect)
    scale = 0 if column.kind.name == "rounded" else column.kind.scale or 0
    if column.kind.name != "rounded" and (native.name != "decimal" or (native.scale is not None and native.scale <= scale)):
        return dialect.number(expression, native)
    return f"CAST({text} AS {dialect.native_type(Kind('decimal', dialect.MAX_DECIMAL_DIGITS, scale))})"


def _units(c: str, scale: int, dialect: Dialect) -> str:
    """SQL of a float in units of 10^-scale, as ``Dialect.rounded_text`` writes them; none of what is too large for them."""
    x = dialect.double(c)
    size = f"FLOOR(ABS({x}) * {dialect.double_literal(f'1e{scale}')} + {dialect.double_literal('0.5')})"
    within = f"ABS({x}) < {dialect.double_literal(f'9e{18 - scale}')}"
    return dialect.bigint(f"CASE WHEN NOT {within} THEN {dialect.double_literal('0')} WHEN {x} < 0 THEN -{size} ELSE {size} END")


def _folded(name: str, column: ColumnPlan, side: Side, dialect: Dialect, index: int) -> str:
    """SQL of one measure of many rows, as the engine counts it."""
    if name == "nulls":
        return f"COUNT(*) - COUNT(v{index})"
    if name in FOLDED:
        return f"{name.upper()}(v{index})"
    if name in ("characters", "true"):
        return dialect.integer_sum(f"d{index}")
    native, expression = column.native[side], column.expression[side]
    if addend(column, side, dialect, "") == expression:
        return dialect.number_sum(f"v{index}", native)
    return dialect.number_sum(f"d{index}", Kind("integer") if native.name in ("bit", *canonical.FLOATS) else BIG)


def _told(name: str, column: ColumnPlan, side: Side, dialect: Dialect, measured: str) -> str:
    """SQL of one measure as text that both sides spell alike."""
    if name not in ("sum", *FOLDED):
        return dialect.as_text(measured)
    if name == "sum" or family(column) == "number":
        # The digits alone are said, not the scale: the engine's own type of what it folded need not be the column's.
        return dialect.decimal_text(measured, 0 if column.kind.name == "rounded" else column.kind.scale or 0, BIG)
    return dialect.text(column.kind, measured, column.native[side])


# what the texts mean


def fold(name: str, texts: Iterable[str | None]) -> str | None:
    """The measure of several chunks as one; ``name`` is the measure's (``sum``) or its result column's (``sum_3``)."""
    held = [text for text in texts if text is not None]
    what = name.partition("_")[0]
    if not held:
        return None
    if what in FOLDED:
        return (min if what == "min" else max)(held, key=order)
    total = Decimal(0)
    for text in held:
        total = _EXACT.add(total, Decimal(text))
    return f"{total:f}"


def order(text: str) -> tuple[int, object]:
    """What least and greatest values are ordered by: as the engines order what the texts stand for."""
    if text.lower() in _BEYOND:
        return _BEYOND[text.lower()], 0
    if found := _MOMENT.fullmatch(text):
        year, month, day, hour, minute, second, before = found.groups(default="")
        clock = (int(hour or 0), int(minute or 0), Fraction(second or 0))
        return 0, (1 - int(year) if before else int(year), int(month), int(day), *clock)
    value = amount(text)
    return 0, text if value is None else value


def amount(text: str | None) -> Fraction | None:
    """The number that a measured text stands for, of a moment or a time of day its seconds; None where it has none."""
    if text is None:
        return None
    if found := _FLOAT.fullmatch(text):
        return Fraction(int(found.group(1))) * Fraction(2) ** (int(found.group(2)) - 53)
    if found := _CLOCK.fullmatch(text):
        return (-1 if found.group(1) else 1) * (int(found.group(2)) * 3600 + int(found.group(3)) * 60 + Fraction(found.group(4)))
    if found := _MOMENT.fullmatch(text):
        year, month, day, hour, minute, second, before = found.groups(default="")
        days = _days(1 - int(year) if before else int(year), int(month), int(day))
        return days * 86400 + int(hour or 0) * 3600 + int(minute or 0) * 60 + Fraction(second or 0)
    return Fraction(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the calendar of today, of any year; of a zero date about so many."""
    year -= month <= 2
    shifted = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    within = year % 400
    return year // 400 * 146097 + within * 365 + within // 4 - within // 100 + shifted - 719468


def readable(column: ColumnPlan, name: str, text: str | None) -> str | None:
    """A measured text as a person writes the value."""
    if text is None or name not in ("sum", *FOLDED):
        return text
    if column.kind.name == "rounded" and re.fullmatch(r"-?\d+", text):
        return f"{Decimal(text).scaleb(-(column.kind.scale or 0), _EXACT):f}"
    return canonical.readable(Kind("float64") if _FLOAT.fullmatch(text) else column.kind, text)
