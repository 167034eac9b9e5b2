"""Measures of the method counts: those of each column, their names, and the meaning of measured texts.

Both sides return a measure as canonical text. Measures of several chunks can be merged: counts and sums add up, and of least and
greatest values one is taken. Floats have no sum, because it would depend on the order of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Literal

from auditor import canonical
from auditor.model import ColumnPlan, Plan
from dialects import Kind
from dialects.kinds import FREE_TEXT_KINDS

Family = Literal["number", "float", "rounded", "moment", "clock", "truth", "fixed", "text"]
"""Groups of kinds with the same measures: exact numbers, floats, floats rounded to a scale, dates and timestamps, times of day,
booleans, uuids and bits, and everything else."""

MEASURES: dict[Family, tuple[str, ...]] = {
    "number": ("nulls", "sum", "min", "max"),
    "float": ("nulls", "min", "max"),
    "rounded": ("nulls", "sum", "min", "max"),
    "moment": ("nulls", "min", "max"),
    "clock": ("nulls", "min", "max"),
    "truth": ("nulls", "true"),
    "fixed": ("nulls",),
    "text": ("nulls", "characters", "bytes"),
}
"""Measures of a column by its family: NULLs, sum, least and greatest value, true values, characters in all, and their bytes in UTF-8."""

EXTREMES = ("min", "max")
"""Measures that are merged by taking the least or greatest of several chunks'; all others add up."""

_NUMBERS = frozenset({"integer", "decimal", "year", "bit"})
_MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
_EXACT = Context(prec=2000, traps=[])
HISTOGRAMS: frozenset[Family] = frozenset({"number", "float", "rounded", "moment"})
"""Families for which a histogram can be computed."""

_FLOAT = re.compile(r"(-?\d+)p(-?\d+)")
_CLOCK = re.compile(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_MOMENT = re.compile(r"(\d+)-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d(?:\.\d+)?))?( BC)?")
_SPECIAL_VALUES = {"-infinity": -1, "infinity": 1, "nan": 2}
"""Values beyond all numbers, and their rank: below (-1) or above (1, 2) them. Engines sort NaN last."""


def family(column: ColumnPlan) -> Family:
    """Return the family of a column, by its kind and both sides' own types, so that both sides can measure the same."""
    kind, native = column.kind.name, {n.name for n in column.native.values()}
    if column.null_as is not None:
        return "text"  # the text for NULL may be stored on one side only
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
    if kind == "boolean" and not native & FREE_TEXT_KINDS:
        return "truth"
    return "fixed" if kind in ("uuid", "bit") and not native & FREE_TEXT_KINDS else "text"


def column_measures(column: ColumnPlan) -> tuple[str, ...]:
    """Return the names of a column's measures, the same on both sides: bytes where they may be other ones than the characters."""
    has_bytes = column.kind.is_free_text and not column.pieces
    return tuple(name for name in MEASURES[family(column)] if name != "bytes" or has_bytes)


def measure_names(plan: Plan) -> list[str]:
    """Return the measures of a counts summary for a person (``price sum``) in result order; empty for other methods."""
    return [f"{column.name} {name}" for column in plan.columns for name in column_measures(column)] if plan.method == "counts" else []


def result_columns(plan: Plan) -> list[str]:
    """Return the result columns of the measures (``sum_3``), in result order."""
    return [f"{name}_{index}" for index, column in enumerate(plan.columns) for name in column_measures(column)]


def fold(name: str, texts: Iterable[str | None]) -> str | None:
    """Merge the measured texts of several chunks; ``name`` is the measure (``sum``) or its result column (``sum_3``)."""
    values = [text for text in texts if text is not None]
    what = name.partition("_")[0]
    if not values:
        return None
    if what in EXTREMES:
        return (min if what == "min" else max)(values, key=sort_key)
    total = Decimal(0)
    for text in values:
        total = _EXACT.add(total, Decimal(text))
    return f"{total:f}"


def are_equal(name: str, source: str | None, target: str | None) -> bool:
    """Return whether two measured texts are equal; of sums, whether their numbers are, because one may end with zeros."""
    numbers = (numeric_value(source), numeric_value(target)) if name == "sum" else (None, None)
    return source == target or (numbers[0] is not None and numbers[0] == numbers[1])


def sort_key(text: str) -> tuple[int, object]:
    """Return a sort key that orders texts as the engines order their values."""
    if text.lower() in _SPECIAL_VALUES:
        return _SPECIAL_VALUES[text.lower()], 0
    if match := _MOMENT.fullmatch(text):
        year, month, day, hour, minute, second, before = match.groups(default="")
        clock = (int(hour or 0), int(minute or 0), Fraction(second or 0))
        return 0, (1 - int(year) if before else int(year), int(month), int(day), *clock)
    value = numeric_value(text)
    return 0, text if value is None else value


def numeric_value(text: str | None) -> Fraction | None:
    """Return the number of a measured text; for a timestamp seconds since 1970, for a time of day seconds; None for other texts."""
    if text is None:
        return None
    if match := _FLOAT.fullmatch(text):
        return Fraction(int(match.group(1))) * Fraction(2) ** (int(match.group(2)) - 53)
    if match := _CLOCK.fullmatch(text):
        return (-1 if match.group(1) else 1) * (int(match.group(2)) * 3600 + int(match.group(3)) * 60 + Fraction(match.group(4)))
    if match := _MOMENT.fullmatch(text):
        year, month, day, hour, minute, second, before = match.groups(default="")
        days = _days(1 - int(year) if before else int(year), int(month), int(day))
        return days * 86400 + int(hour or 0) * 3600 + int(minute or 0) * 60 + Fraction(second or 0)
    return Fraction(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar, for any year; approximate for dates with a zero month or day."""
    year -= month <= 2
    shifted = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    within = year % 400
    return year // 400 * 146097 + within * 365 + within // 4 - within // 100 + shifted - 719468


def readable(column: ColumnPlan, name: str, text: str | None) -> str | None:
    """Return a measured text in readable form: floats and rounded numbers as decimals, other texts as they are."""
    if text is None or name not in ("sum", *EXTREMES):
        return text
    return canonical.readable(Kind("float64") if _FLOAT.fullmatch(text) else column.kind, text)
