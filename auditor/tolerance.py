"""Columns whose values may be apart by a tolerance: what the scan compares them as, and whether two values are within it.

The scan rounds both sides to a grid whose cells are no wider than the tolerance. So values that are further apart always
differ in the scan: nothing is called equal that is not. Values within the tolerance that lie in two cells differ as well;
these rows are named like all others, then judged here by their unrounded values, and forgiven.

* absolute: numbers are rounded to the fewest digits d >= 0 with 10^-d <= tolerance. A float times 10^d is itself rounded, which
  moves the borders of a cell towards zero, the farther one by no less than the nearer one: it does not grow, as long as values
  have no more than ``FLOAT_DIGITS`` digits before the point and d behind it.
* time: moments are cut to the largest 10^-s seconds (s >= 0) that is no longer than the tolerance.
* relative: floats are rounded to single precision where its spacing, 2^-23 of a value, is within the tolerance; other numbers
  and smaller tolerances are compared as they are.

Whether two values are within a tolerance is decided on their decimal digits (of a float, the shortest that read back as it),
with exact fractions: |a - b| <= absolute; |a - b| <= relative * max(|a|, |b|). NULL, NaN and infinities equal only themselves.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from auditor import canonical, config
from auditor.canonical import FLOATS, Shared
from auditor.compare import account
from auditor.compare.account import Alike, Row
from auditor.errors import ColumnRefused
from auditor.model import SIDES, ColumnDifference, ColumnPlan, Difference, Plan, Side, Tolerance
from dialects import Kind

NUMBERS = frozenset({"integer", "decimal", "year"})
MOMENTS = frozenset({"timestamp", "timestamptz", "time"})
FLOAT_DIGITS = 15
"""Digits of a float up to which whole units of its last one can be told apart: 10^15 < 2^52."""
SINGLE = Decimal(2) ** -23
"""The spacing of single precision, relative to the value."""
DAY = 86400
DAYS_OF_400_YEARS = 146097


def of(setting: config.Tolerance) -> Tolerance:
    """A configured tolerance as the decimal that was written."""
    if setting.absolute is not None:
        return Tolerance("absolute", Decimal(repr(setting.absolute)))
    if setting.relative is not None:
        return Tolerance("relative", Decimal(repr(setting.relative)))
    return Tolerance("time", Decimal(repr(round(setting.time or 0.0, 9))))


def kinds(name: str, native: Mapping[Side, Kind], types: Mapping[Side, str], tolerance: Tolerance) -> tuple[Shared, dict[Side, Kind]]:
    """What a column with a tolerance is scanned as, and what each side's unrounded values are fetched as.

    The latter is what the column would be compared as without a tolerance; a decimal and a float, which share no kind, each keep
    their own. Raises ColumnRefused.
    """
    shared = canonical.share(native["source"], native["target"])
    names = {kind.name for kind in native.values()}
    if tolerance.measure == "time":
        if shared is None or shared.kind.name not in MOMENTS | {"date"} or not names <= MOMENTS | {"date"}:
            raise _refused(name, types, "a tolerance of time needs dates, times or timestamps on both sides")
        scanned = _cut(name, shared.kind, tolerance.most)
    elif not names <= NUMBERS | FLOATS:
        raise _refused(name, types, f"a tolerance that is {tolerance.measure} needs numbers on both sides")
    elif tolerance.measure == "absolute":
        scanned = _rounded(name, shared, names, tolerance.most)
    else:
        scanned = _single(name, shared, names, tolerance.most)
    fine: dict[Side, Kind] = {side: shared.kind if shared else _own(native[side]) for side in SIDES}
    lossy = f"values up to {tolerance} apart count as equal"
    if shared and shared.lossy:
        lossy = f"{shared.lossy}; {lossy}"
    if scanned.name == "rounded":
        lossy += f", and of floats beyond {10 ** (FLOAT_DIGITS - (scanned.scale or 0)):.0e} perhaps neighbouring ones"
    return Shared(scanned, f"the audit's tolerance of {tolerance}", lossy), fine


def _refused(name: str, types: Mapping[Side, str], why: str) -> ColumnRefused:
    return ColumnRefused(f"column {name!r} ({' and '.join(types[side] for side in SIDES)}): {why}")


def _own(native: Kind) -> Kind:
    alone = canonical.share(native, native)
    return alone.kind if alone else native


def _digits(most: Decimal) -> int:
    """The fewest digits d >= 0 with 10^-d <= most."""
    return max(0, -most.adjusted())


def _cut(name: str, kind: Kind, most: Decimal) -> Kind:
    if kind.name == "date":
        if most < DAY:
            raise ColumnRefused(f"column {name!r} is compared as dates, which are whole days apart: write a tolerance of time: 1d or more")
        return kind
    held = 6 if kind.scale is None else kind.scale
    return kind if _digits(most) >= held else Kind(kind.name, scale=_digits(most))


def _rounded(name: str, shared: Shared | None, names: set[str], most: Decimal) -> Kind:
    if names & FLOATS:
        digits = _digits(most)
        if digits <= FLOAT_DIGITS:
            return Kind("rounded", scale=digits)
        if shared:
            return shared.kind
        raise ColumnRefused(f"column {name!r}: a float and a decimal cannot be compared to within {most}; write at least 1e-15")
    assert shared is not None  # numbers that are no floats always share a kind
    scale = shared.kind.scale or 0
    if _digits(most) >= scale:
        return shared.kind
    whole = shared.kind.digits - scale if shared.kind.digits else None
    return Kind("decimal", None if whole is None else whole + _digits(most), _digits(most))


def _single(name: str, shared: Shared | None, names: set[str], most: Decimal) -> Kind:
    if names & FLOATS and most >= SINGLE:
        return Kind("float32")
    if shared:
        return shared.kind
    if most < Decimal(2) ** -50:  # a decimal as a float is rounded itself
        raise ColumnRefused(f"column {name!r}: a float and a decimal cannot be compared to within {most} of a value; write at least 1e-15")
    return Kind("float64")


def notes(plan: Plan) -> list[str]:
    """What a person should know of a plan's tolerances."""
    found = ", ".join(f"{column.name} {column.tolerance}" for column in plan.columns if column.tolerance)
    if not found:
        return []
    if plan.method != "exact":
        return [
            f"values within a tolerance ({found}) that lie on two sides of a border of its rounding grid still count as different:"
            f" the method {plan.method} looks at no row; the method exact does"
        ]
    return [
        f"rows within a tolerance ({found}) are forgiven one by one; partitions with too many rows to look at are estimated on the"
        " tolerance's rounding grid, where values on two sides of a border count as different"
    ]


def named(plan: Plan, rows: Mapping[Side, Sequence[Row]]) -> tuple[list[Difference], int]:
    """The differences of fetched rows, their values as a person reads them, and how many pairs of rows are within tolerances."""
    left, pairs = forgiven(plan, rows)
    names = [column.name for column in plan.columns]
    columns = {column.name: column for column in plan.columns}
    masked = {column.name for column in plan.columns if column.masked}
    found = account.differences(left, names[: plan.key], names[plan.key :], masked, _judges(plan))
    return [dataclasses.replace(one, columns=tuple(_readable(c, columns[c.name]) for c in one.columns)) for one in found], pairs


def forgiven(plan: Plan, rows: Mapping[Side, Sequence[Row]]) -> tuple[Mapping[Side, Sequence[Row]], int]:
    """Rows, fetched with their columns, without the pairs that differ within tolerances alone; and how many pairs these are."""
    if not plan.is_tolerant:
        return rows, 0
    return account.forgiven(rows, [column.name for column in plan.columns[plan.key :]], _judges(plan))


def _judges(plan: Plan) -> dict[str, Alike]:
    return {column.name: judge(column) for column in plan.columns if column.tolerance}


def _readable(difference: ColumnDifference, column: ColumnPlan) -> ColumnDifference:
    source, target = (canonical.readable(column.finely(side).kind, getattr(difference, side)) for side in SIDES)
    return ColumnDifference(difference.name, source, target)


def judge(column: ColumnPlan) -> Alike:
    """Whether the unrounded canonical texts of a column's two sides are equal or within its tolerance."""
    tolerance = column.tolerance
    of_source, of_target = (column.finely(side).kind for side in SIDES)

    def alike(source: str | None, target: str | None) -> bool:
        if tolerance is None or source is None or target is None:
            return source == target
        if source == target and of_source == of_target:
            return True
        a, b = value(of_source, source), value(of_target, target)
        if a is None or b is None:
            return canonical.readable(of_source, source) == canonical.readable(of_target, target)
        scale = max(abs(a), abs(b)) if tolerance.measure == "relative" else 1
        return abs(a - b) <= Fraction(tolerance.most) * scale

    return alike


def value(kind: Kind, text: str) -> Fraction | None:
    """The number, or the seconds, that a canonical text stands for; None for NaN, infinities and what is no value of its kind."""
    if kind.name in MOMENTS | {"date"}:
        return _seconds(text)
    try:
        return Fraction(canonical.readable(kind, text) or "")
    except ValueError:
        return None


_CLOCK = re.compile(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_MOMENT = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?))?")


def _seconds(text: str) -> Fraction | None:
    if clock := _CLOCK.fullmatch(text):
        sign, hours, minutes, seconds = clock.groups()
        return (-1 if sign else 1) * (int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds))
    moment = _MOMENT.fullmatch(text)
    if moment is None:
        return None
    year, month, day, time = moment.groups()
    cycles, year = divmod(int(year), 400)  # so that years beyond 9999 are dates as well
    try:
        days = dt.date(year + 400, int(month), int(day)).toordinal() + cycles * DAYS_OF_400_YEARS
    except ValueError:  # MySQL's 0000-00-00
        return None
    return days * DAY + (_seconds(time) or Fraction(0) if time else Fraction(0))
