"""SQL of the distribution of a column's values: rows by class, and by bucket of a histogram.

All engines put a value into the same bucket, because they compare it with borders that are computed here once and are exact in the
column's type; no engine computes the number of a bucket.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise

import sql_templates
from auditor import canonical
from auditor.model import Chunk, ColumnPlan, Plan, Side
from auditor.sql import counts, render, row_text
from auditor.sql.relation import relation
from auditor.sql.user_sql import checked
from auditor.summary import measures
from dialects import Dialect, Kind

MAX_CLASS_CHARACTERS = 200
"""Most characters of a class's text; a longer text is replaced by its beginning and its hash."""

MAX_DOUBLE = "1.7976931348623157e308"
"""Greatest finite double."""

_EXACT = Context(prec=2000)


def classes(plan: Plan, column: ColumnPlan, side: Side, dialect: Dialect, most: int, only: Sequence[str | None] | None = None) -> str:
    """Return the statement that counts the rows of the ``most`` most frequent classes; ``only`` of these, given by their texts."""
    which, c = "1 = 1", plan.named("classed_rows.c")
    if only is not None:
        texts = [text + dialect.text.END_OF_GROUPED_TEXT for text in only if text is not None]
        which = " OR ".join([*([dialect.text.is_one_of(c, texts)] if texts else []), *([f"{c} IS NULL"] if None in only else [])])
    fragments = {
        "class": dialect.text.grouped_text(row_text.shortened_text(column, side, dialect, MAX_CLASS_CHARACTERS)),
        "text": dialect.text.text_of_group(c),
        **_common(plan, side, dialect),
        "which": which,
        "most": str(most),
    }
    return checked(sql_templates.fill(dialect.template("classes"), fragments), dialect)


def _common(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    return {"p": plan.prefix, "table": relation(plan.sides[side], dialect), "where": render.where(plan, side, Chunk())}


@dataclass(frozen=True, slots=True)
class Borders:
    """The borders between the buckets of a histogram."""

    texts: tuple[str, ...]
    """Lower limits (inclusive) of all buckets but the first, ascending, as text that every engine can read."""
    names: tuple[str, ...]
    """Names of the buckets: one more than ``texts``."""


def borders(column: ColumnPlan, least: str, greatest: str, buckets: int) -> Borders:
    """Return the borders of at most ``buckets`` buckets between two measured texts; fewer if fewer values lie in between."""
    low, high = measures.numeric_value(least), measures.numeric_value(greatest)
    assert low is not None
    assert high is not None
    if measures.family(column) == "float":
        floats = [float(low + (high - low) * number / buckets) for number in range(1, buckets)]
        between = [repr(value) for value in sorted(set(floats)) if low < Fraction(value) <= high]
        ends = [repr(float(low)), *between, repr(float(high))]
        return Borders(tuple(between), tuple(f"{a} to {b}" for a, b in pairwise(ends)))
    unit = _border_unit(column, low, high, buckets)
    first, values = math.floor(low / unit), math.floor(high / unit) - math.floor(low / unit) + 1
    cuts = sorted({first + values * number // buckets for number in range(1, buckets)} - {first})
    between = [_border_text(column, cut, unit) for cut in cuts]
    shown = [measures.readable(column, "min", text) or "" for text in (_border_text(column, first, unit), *between, greatest)]
    return Borders(tuple(between), tuple(f"{a} to {b}" for a, b in pairwise(shown)))


def _border_unit(column: ColumnPlan, low: Fraction, high: Fraction, buckets: int) -> Fraction:
    """Return the unit of which every border is a multiple: the column's scale, whole days, or seconds."""
    scale = column.kind.scale
    if measures.family(column) == "moment":
        if column.kind.name == "date":
            return Fraction(86400)
        return Fraction(1) if high - low >= buckets else Fraction(1, 10 ** min(6, 6 if scale is None else scale))
    return Fraction(1, 10 ** (0 if column.kind.name == "rounded" else scale or 0)) if scale else Fraction(1)


def _border_text(column: ColumnPlan, cut: int, unit: Fraction) -> str:
    if measures.family(column) == "moment":
        at = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(cut * unit * 1_000_000))
        return f"{at.year:04}-{at:%m-%d}" + ("" if column.kind.name == "date" else f" {at:%H:%M:%S}.{at.microsecond:06}")
    return f"{Decimal(cut).scaleb(1 - len(str(unit.denominator)), _EXACT):f}"


def histogram(plan: Plan, column: ColumnPlan, side: Side, dialect: Dialect, borders: Borders) -> str:
    """Return the statement that counts the rows of each bucket."""
    literals = [_literal(column, side, dialect, text) for text in borders.texts]
    fragments = {
        "bucket": _bucket(plan.named("valued_rows.v"), literals, 0, len(literals)),
        "value": _compared_value(column, side, dialect),
        **_common(plan, side, dialect),
    }
    return checked(sql_templates.fill(dialect.template("histogram"), fragments), dialect)


def histogram_bounds(plan: Plan, column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return the statement that finds the least and the greatest finite value."""
    v = plan.named("valued_rows.v")
    least, greatest, within = (
        _bound_text(column, side, dialect, plan.named("b.least")),
        _bound_text(column, side, dialect, plan.named("b.greatest")),
        f"{v} IS NOT NULL",
    )
    kind = measures.family(column)
    if kind == "float":
        within = f"{v} >= {dialect.numbers.double_literal('-' + MAX_DOUBLE)} AND {v} <= {dialect.numbers.double_literal(MAX_DOUBLE)}"
    elif kind == "moment":
        day = column.native[side].name == "date"
        ends = ("0001-01-01", "9999-12-31") if day else ("0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999")
        first, last = (_time_literal(end, side, column, dialect) for end in ends)
        within = f"{v} >= {first} AND {v} <= {last}"
    fragments = {
        "least": least,
        "greatest": greatest,
        "value": _compared_value(column, side, dialect),
        "within": within,
        **_common(plan, side, dialect),
    }
    return checked(sql_templates.fill(dialect.template("histogram_bounds"), fragments), dialect)


def _bucket(v: str, literals: Sequence[str], first: int, last: int) -> str:
    """Return SQL of the number of the bucket of ``v``, as a binary search among the borders."""
    if first == last:
        return str(first)
    middle = (first + last) // 2
    below, above = _bucket(v, literals, first, middle), _bucket(v, literals, middle + 1, last)
    return f"CASE WHEN {v} < {literals[middle]} THEN {below} ELSE {above} END"


def _compared_value(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the value at the precision that is compared."""
    expression = column.expression[side]
    match measures.family(column):
        case "float":
            narrowed = column.kind.name == "float32" and column.native[side].name != "float32"
            return dialect.numbers.as_double(dialect.numbers.as_single(expression) if narrowed else expression)
        case "moment":
            # Borders have no more digits than the coarser side, so cutting would change no comparison.
            return row_text.levelled(column, side, dialect)
        case _:
            return counts.addend(column, side, dialect, row_text.text(column, side, dialect))


def _bound_text(column: ColumnPlan, side: Side, dialect: Dialect, value: str) -> str:
    match measures.family(column):
        case "float":
            return dialect.numbers.float_text(value, Kind("float64"), Kind("float64"))
        case "moment":
            return dialect.canonical.canonical_text(replace(column.kind, rounding=""), value, column.native[side])
        case "number" if column.kind == canonical.FULL_DECIMAL:
            return counts.full_number_text(value, column.native[side], dialect)
        case kind:
            native = column.native[side]
            whole = native.name in ("integer", "year", *canonical.FLOATS)  # floats are counted in units of their last digit
            exact = Kind("integer", unsigned=native.unsigned) if whole else counts.SUM_KIND
            return dialect.numbers.decimal_text(value, 0 if kind == "rounded" else column.kind.scale or 0, exact)


def _literal(column: ColumnPlan, side: Side, dialect: Dialect, text: str) -> str:
    match measures.family(column):
        case "float":
            return f"({dialect.numbers.double_literal(text)})"
        case "moment":
            return _time_literal(text, side, column, dialect)
        case _:
            return f"({dialect.names.number_literal(text)})"


def _time_literal(text: str, side: Side, column: ColumnPlan, dialect: Dialect) -> str:
    """Return SQL of a time in the side's own type; a timestamp if the text has a time of day and the side stores dates."""
    native = column.native[side]
    if not dialect.types.LITERALS_NEED_CAST:
        return dialect.names.string_literal(dialect.names.written_time(text))
    kind = Kind("date" if len(text) == 10 else "timestamp" if native.name == "date" else native.name, scale=6)
    return f"CAST({dialect.names.string_literal(text)} AS {dialect.types.native_type(kind)})"
