"""How a column's values are spread, under the method counts: the rows of each class, and of each bucket of a histogram.

Both cross the network in little more rows than were asked for. Every engine puts a value into the same bucket, because it
compares it with borders that were computed here once and are exact in its type: no engine computes a bucket's number.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import sql_templates
from auditor import measuring, render
from auditor.expressions import checked
from auditor.model import SIDES, Chunk, ColumnPlan, Plan, Side
from dialects import Dialect, Kind, Session

T = TypeVar("T")
Ask = Callable[[Callable[[Side, Session], Any]], dict[Side, Any]]
"""Does a piece of work on both sides at once."""

LONGEST = 200
"""Characters of a class's text; of a longer one its beginning and its hash."""

AT_ONCE = 500
"""Classes that one statement is asked for by name."""

GREATEST = "1.7976931348623157e308"
"""The greatest finite double."""

FAMILIES = ("number", "float", "rounded", "moment")
"""What a histogram can be of."""

_EXACT = Context(prec=2000)


@dataclass(frozen=True, slots=True)
class Share:
    """Some rows of a column on both sides: ``name`` says which, for a person."""

    name: str
    rows: dict[Side, int]


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes that were compared, and where these are not all, how many each side has."""

    shares: tuple[Share, ...]
    total: dict[Side, int] | None = None


# classes


def classes(plan: Plan, column: ColumnPlan, most: int, ask: Ask) -> Classes:
    """The rows of each class; where a side has more than ``most``, of the source's most frequent ones."""
    top = ask(lambda side, session: _counted(plan, column, side, session, "1 = 1", most))
    total = {side: top[side][1] for side in SIDES}
    rows: dict[Side, dict[str | None, int]] = {side: top[side][0] for side in SIDES}
    if max(total.values()) <= most:
        named = dict.fromkeys([*rows["source"], *rows["target"]])
        return Classes(tuple(_class(column, number, name, rows) for number, name in enumerate(named, 1)))
    unseen = [name for name in rows["source"] if name not in rows["target"]] if total["target"] > most else []
    for start in range(0, len(unseen), AT_ONCE):
        some = unseen[start : start + AT_ONCE]
        rows["target"].update(ask(partial(_again, plan, column, some))["target"])
    return Classes(tuple(_class(column, number, name, rows) for number, name in enumerate(rows["source"], 1)), total)


def _class(column: ColumnPlan, number: int, name: str | None, rows: dict[Side, dict[str | None, int]]) -> Share:
    """A class by its name, or, where the column is masked, by its place among the most frequent ones."""
    told = "NULL" if name is None else f"number {number}" if column.masked else repr(measuring.readable(column, "min", name))
    return Share(told, {side: rows[side].get(name, 0) for side in SIDES})


def _again(plan: Plan, column: ColumnPlan, some: Sequence[str | None], side: Side, session: Session) -> dict[str | None, int]:
    """The rows of these classes in the target."""
    if side == "source":
        return {}
    texts = [session.dialect.string(name) for name in some if name is not None]
    which = [*([f"c IN ({', '.join(texts)})"] if texts else []), *(["c IS NULL"] if None in some else [])]
    return _counted(plan, column, side, session, " OR ".join(which), len(some))[0]


def _counted(plan: Plan, column: ColumnPlan, side: Side, session: Session, which: str, most: int) -> tuple[dict[str | None, int], int]:
    """The most frequent classes with their rows, and how many classes there are."""
    rows = session.query(classes_sql(plan, column, side, session.dialect, which, most))
    found = {None if text is None else text.decode() if isinstance(text, bytes) else str(text): int(count) for text, count, _ in rows}
    return found, int(rows[0][2]) if rows else 0


def classes_sql(plan: Plan, column: ColumnPlan, side: Side, dialect: Dialect, which: str, most: int) -> str:
    """The statement that counts the rows of the most frequent classes for which ``which`` holds of their text c."""
    fragments = {
        "class": dialect.bytewise(render.shortened(column, side, dialect, LONGEST)),
        **_rows(plan, side),
        "which": which,
        "most": str(most),
    }
    return checked(sql_templates.fill(dialect.template("classes"), fragments), dialect)


def _rows(plan: Plan, side: Side) -> dict[str, str]:
    return {"table": plan.sides[side].table, "where": render.where(plan, side, Chunk())}


# histograms


@dataclass(frozen=True, slots=True)
class Borders:
    """What parts the buckets from each other, ascending, each as every engine reads it; and the names of the buckets."""

    texts: tuple[str, ...]
    names: tuple[str, ...]


def histogram(plan: Plan, column: ColumnPlan, buckets: int, ask: Ask) -> tuple[Share, ...]:
    """The rows of each bucket of equal width between the least and the greatest value of both sides.

    Values beyond all numbers are in the first or the last bucket; rows without a value in none.
    """
    ends = ask(lambda side, session: session.query(bounds_sql(plan, column, side, session.dialect))[0])
    texts = [str(text) for side in SIDES for text in ends[side] if text is not None]
    if not texts:
        return ()
    least, greatest = (pick(texts, key=measuring.order) for pick in (min, max))
    parted = borders(column, least, greatest, buckets)
    counted = ask(lambda side, session: dict(session.query(histogram_sql(plan, column, side, session.dialect, parted))))
    rows = {side: {int(number): int(count) for number, count in counted[side].items()} for side in SIDES}
    return tuple(
        Share(f"bucket {number + 1} of {len(parted.names)}" if column.masked else name, {side: rows[side].get(number, 0) for side in SIDES})
        for number, name in enumerate(parted.names)
    )


def borders(column: ColumnPlan, least: str, greatest: str, buckets: int) -> Borders:
    """The borders of at most so many buckets between two measured texts: fewer where there are fewer values."""
    low, high = measuring.amount(least), measuring.amount(greatest)
    assert low is not None
    assert high is not None
    if measuring.family(column) == "float":
        floats = [float(low + (high - low) * number / buckets) for number in range(1, buckets)]
        between = [repr(value) for value in sorted(set(floats)) if low < Fraction(value) <= high]
        ends = [repr(float(low)), *between, repr(float(high))]
        return Borders(tuple(between), tuple(f"{a} to {b}" for a, b in pairwise(ends)))
    unit = _unit(column, low, high, buckets)
    first, values = math.floor(low / unit), math.floor(high / unit) - math.floor(low / unit) + 1
    cuts = sorted({first + values * number // buckets for number in range(1, buckets)} - {first})
    between = [_written(column, cut, unit) for cut in cuts]
    shown = [measuring.readable(column, "min", text) or "" for text in (_written(column, first, unit), *between, greatest)]
    return Borders(tuple(between), tuple(f"{a} to {b}" for a, b in pairwise(shown)))


def _unit(column: ColumnPlan, low: Fraction, high: Fraction, buckets: int) -> Fraction:
    """What every border is a multiple of: nothing that both sides hold lies between two of them unseen."""
    scale = column.kind.scale
    if measuring.family(column) == "moment":
        if column.kind.name == "date":
            return Fraction(86400)
        return Fraction(1) if high - low >= buckets else Fraction(1, 10 ** min(6, 6 if scale is None else scale))
    return Fraction(1, 10 ** (0 if column.kind.name == "rounded" else scale or 0)) if scale else Fraction(1)


def _written(column: ColumnPlan, cut: int, unit: Fraction) -> str:
    if measuring.family(column) == "moment":
        at = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(cut * unit * 1_000_000))
        return f"{at.year:04}-{at:%m-%d}" + ("" if column.kind.name == "date" else f" {at:%H:%M:%S}.{at.microsecond:06}")
    return f"{Decimal(cut).scaleb(1 - len(str(unit.denominator)), _EXACT):f}"


def histogram_sql(plan: Plan, column: ColumnPlan, side: Side, dialect: Dialect, parted: Borders) -> str:
    """The statement that counts the rows of each bucket."""
    literals = [_literal(column, side, dialect, text) for text in parted.texts]
    fragments = {"bucket": _bucket(literals, 0, len(literals)), "value": _value(column, side, dialect), **_rows(plan, side)}
    return checked(sql_templates.fill(dialect.template("histogram"), fragments), dialect)


def bounds_sql(plan: Plan, column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """The statement that finds the least and the greatest finite value."""
    least, greatest, within = _told(column, side, dialect, "b.least"), _told(column, side, dialect, "b.greatest"), "v IS NOT NULL"
    kind = measuring.family(column)
    if kind == "float":
        within = f"v >= {dialect.double_literal('-' + GREATEST)} AND v <= {dialect.double_literal(GREATEST)}"
    elif kind == "moment":
        day = column.native[side].name == "date"
        ends = ("0001-01-01", "9999-12-31") if day else ("0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999")
        within = " AND ".join(f"v {sign} {_moment(end, side, column, dialect)}" for sign, end in zip((">=", "<="), ends, strict=True))
    fragments = {"least": least, "greatest": greatest, "value": _value(column, side, dialect), "within": within, **_rows(plan, side)}
    return checked(sql_templates.fill(dialect.template("histogram_bounds"), fragments), dialect)


def _bucket(literals: Sequence[str], first: int, last: int) -> str:
    """SQL of the bucket's number: a tree of comparisons, of which a row passes few."""
    if first == last:
        return str(first)
    middle = (first + last) // 2
    return f"CASE WHEN v < {literals[middle]} THEN {_bucket(literals, first, middle)} ELSE {_bucket(literals, middle + 1, last)} END"


def _value(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """SQL of the value as both sides hold it."""
    expression = column.expression[side]
    match measuring.family(column):
        case "float":
            narrowed = column.kind.name == "float32" and column.native[side].name != "float32"
            return dialect.double(dialect.single(expression) if narrowed else expression)
        case "moment":
            return expression  # a border has no digits that the coarser side has not, so that cutting changes no comparison
        case _:
            return measuring.addend(column, side, dialect, render.text(column, side, dialect))


def _told(column: ColumnPlan, side: Side, dialect: Dialect, value: str) -> str:
    match measuring.family(column):
        case "float":
            return dialect.float_text(value, Kind("float64"), Kind("float64"))
        case "moment":
            return dialect.text(column.kind, value, column.native[side])
        case kind:
            return dialect.decimal_text(value, 0 if kind == "rounded" else column.kind.scale or 0, measuring.BIG)


def _literal(column: ColumnPlan, side: Side, dialect: Dialect, text: str) -> str:
    match measuring.family(column):
        case "float":
            return f"({dialect.double_literal(text)})"
        case "moment":
            return _moment(text, side, column, dialect)
        case _:
            return f"({text})"


def _moment(text: str, side: Side, column: ColumnPlan, dialect: Dialect) -> str:
    """SQL of a moment of the side's own type; of one with a time of day where the side holds days."""
    native = column.native[side]
    if not dialect.LITERALS_NEED_CAST:
        return dialect.string(text)
    kind = Kind("date" if len(text) == 10 else "timestamp" if native.name == "date" else native.name, scale=6)
    return f"CAST({dialect.string(text)} AS {dialect.native_type(kind)})"
