"""Tolerances: the kinds in which the scan compares a column, and the decision whether two values are within its tolerance.

The scan rounds both sides to a grid whose cells are no wider than the tolerance. So values that are further apart always
differ in the scan, and nothing beyond the tolerance is reported as equal. Values within the tolerance that lie in two cells differ in
the scan as well; their rows are fetched like all others, and then compared here by their unrounded values.

* absolute: numbers are rounded to the fewest digits d >= 0 after the point with 10^-d <= tolerance. A float times 10^d is itself rounded,
  which moves the borders of a cell towards zero, the farther one by no less than the nearer one: cells do not become wider, as long as
  values have at most ``FLOAT_DIGITS`` digits, d of them after the point.
* time: times are truncated to multiples of the largest 10^-s seconds (s >= 0) that does not exceed the tolerance.
* relative: floats are rounded to single precision if its spacing, 2^-23 of a value, is within the tolerance; other numbers,
  and floats with smaller tolerances, are not rounded.

Whether two values are within a tolerance is decided with exact fractions of their decimal digits (for a float, the shortest ones that
read back as it): |a - b| <= absolute; |a - b| <= relative * max(|a|, |b|). NULL, NaN and infinities equal only themselves.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from auditor import canonical, config
from auditor.canonical import FLOATS, Shared
from auditor.compare import accounting, documents, text_forms
from auditor.compare.accounting import Row, TextEquality
from auditor.errors import ColumnRefused
from auditor.model import SIDES, ColumnDifference, ColumnPlan, Difference, Plan, Side, Tolerance
from dialects import Kind

NUMBERS = frozenset({"integer", "decimal", "year"})
MOMENTS = frozenset({"timestamp", "timestamptz", "time"})
FLOAT_DIGITS = 15
"""Decimal digits of a double at which neighbouring values remain distinct: 10^15 < 2^52."""
SINGLE_SPACING = Decimal(2) ** -23
"""Spacing of single precision, relative to the value."""
SECONDS_PER_DAY = 86400
DAYS_OF_400_YEARS = 146097
"""Days of a full cycle of the Gregorian calendar."""


def from_setting(setting: config.Tolerance) -> Tolerance:
    """Return a configured tolerance as the decimal that was written in the configuration."""
    if setting.absolute is not None:
        return Tolerance("absolute", Decimal(repr(setting.absolute)))
    if setting.relative is not None:
        return Tolerance("relative", Decimal(repr(setting.relative)))
    return Tolerance("time", Decimal(repr(round(setting.time or 0.0, 9))))


def resolve_kinds(
    name: str, native: Mapping[Side, Kind], types: Mapping[Side, str], tolerance: Tolerance
) -> tuple[Shared, dict[Side, Kind]]:
    """Return the kind in which a column with a tolerance is scanned, and the kind in which each side's unrounded values are fetched.

    The latter is the kind in which the column would be compared without a tolerance; a decimal and a float, which share no kind, keep
    their own. ``name`` and ``types`` (each side's own type) appear in messages. Raises ColumnRefused if the tolerance does not fit.
    """
    shared = canonical.shared_kind(native["source"], native["target"])
    names = {kind.name for kind in native.values()}
    if names & FLOATS and not names <= FLOATS:
        shared = None  # without a tolerance they are compared as floats; within one, each by its own digits
    if tolerance.measure == "time":
        if shared is None or shared.kind.name not in MOMENTS | {"date"} or not names <= MOMENTS | {"date"}:
            raise _refusal(
                name,
                types,
                "tolerance: time needs dates, times or timestamps on both sides; use absolute or relative, or remove the tolerance",
            )
        scanned = _truncated_time(name, shared.kind, tolerance.most)
    elif not names <= NUMBERS | FLOATS:
        raise _refusal(name, types, f"tolerance: {tolerance.measure} needs numbers on both sides; change the tolerance, or remove it")
    elif tolerance.measure == "absolute":
        scanned = _rounded_number(name, shared, names, tolerance.most)
    else:
        scanned = _single_precision(name, shared, names, tolerance.most)
    fine: dict[Side, Kind] = {side: shared.kind if shared else _own_kind(native[side]) for side in SIDES}
    return Shared(scanned, f"the audit's tolerance of {tolerance}"), fine


def largest_distinguished(scanned: Kind) -> float:
    """Return the magnitude of floats beyond which the scan, which rounds them to ``scanned``, may not distinguish neighbouring ones."""
    return 10.0 ** (FLOAT_DIGITS - (scanned.scale or 0))


def _refusal(name: str, types: Mapping[Side, str], why: str) -> ColumnRefused:
    return ColumnRefused(f"column {name!r} ({' and '.join(types[side] for side in SIDES)}): {why}")


def _own_kind(native: Kind) -> Kind:
    alone = canonical.shared_kind(native, native)
    return alone.kind if alone else native


def _fraction_digits(most: Decimal) -> int:
    """Return the fewest digits d >= 0 with 10^-d <= most."""
    return max(0, -most.adjusted())


def _truncated_time(name: str, kind: Kind, most: Decimal) -> Kind:
    if kind.name == "date":
        if most < SECONDS_PER_DAY:
            raise ColumnRefused(f"column {name!r} is compared as dates, which are whole days apart; write tolerance: {{time: 1d}} or more")
        return kind
    scale = 6 if kind.scale is None else kind.scale
    return kind if _fraction_digits(most) >= scale else Kind(kind.name, scale=_fraction_digits(most))


def _rounded_number(name: str, shared: Shared | None, names: set[str], most: Decimal) -> Kind:
    if names & FLOATS:
        digits = _fraction_digits(most)
        if digits <= FLOAT_DIGITS:
            return Kind("rounded", scale=digits)
        if shared:
            return shared.kind
        raise ColumnRefused(f"column {name!r}: a float and a decimal cannot be compared to within {most}; write at least 1e-15")
    assert shared is not None  # exact numbers always share a kind
    scale = 0 if shared.kind.name != "decimal" else shared.kind.scale
    if scale is not None and _fraction_digits(most) >= scale:
        return shared.kind
    whole = shared.kind.digits - scale if shared.kind.digits and scale is not None else None
    return Kind("decimal", None if whole is None else whole + _fraction_digits(most), _fraction_digits(most))


def _single_precision(name: str, shared: Shared | None, names: set[str], most: Decimal) -> Kind:
    if names & FLOATS and most >= SINGLE_SPACING:
        return Kind("float32")
    if shared:
        return shared.kind
    if most < Decimal(2) ** -50:  # conversion of a decimal to a double rounds by up to 2^-53 of the value
        raise ColumnRefused(f"column {name!r}: a float and a decimal cannot be compared to within {most} of a value; write at least 1e-15")
    return Kind("float64")


def notes(plan: Plan) -> list[str]:
    """Return sentences for a person about the effect of a plan's tolerances, and of documents that are compared by value."""
    return _notes_of_tolerances(plan) + _notes_of_documents(plan)


def _notes_of_documents(plan: Plan) -> list[str]:
    if not plan.documents:
        return []
    listed = ", ".join(plan.documents)
    if plan.method != "exact":
        return [
            f"JSON documents ({listed}) are equal by their values, and the method {plan.method} compares no rows: spellings of a number"
            " count as different, and where the sides order keys in different ways, the verdict of a difference is unknown; use the method"
            " exact, or json: text"
        ]
    return [
        f"JSON documents ({listed}) are compared by their values: rows whose documents differ as text are fetched within the limits, and"
        " what is beyond them is not compared, so that the verdict is unknown unless other rows differ for certain"
    ]


def _notes_of_tolerances(plan: Plan) -> list[str]:
    listed = ", ".join(f"{column.name} {column.tolerance}" for column in plan.columns if column.tolerance)
    if not listed:
        return []
    if plan.method != "exact":
        return [
            f"values within a tolerance ({listed}) that round to different numbers still count as different, because the method"
            f" {plan.method} compares no rows; use the method exact to compare rows"
        ]
    return [
        f"rows within a tolerance ({listed}) are compared one by one; partitions with too many rows for that are estimated from"
        " rounded values, where values within the tolerance that round to different numbers count as different"
    ]


@dataclass(frozen=True, slots=True)
class Tolerated:
    """Pairs of rows that differ, and count as equal or may."""

    equal: int = 0
    """Those within their columns' tolerances, and whose documents have equal values."""
    undecided: int = 0
    """Those whose documents differ as text, and were not read to compare their values."""


def named_differences(
    plan: Plan, rows: Mapping[Side, Sequence[Row]], length: int, *, known: bool = False
) -> tuple[list[Difference], Tolerated]:
    """Return the differences of fetched rows, with readable values, and the pairs of rows that are none, or may be none.

    Documents are shortened to ``length`` characters, as other values were when they were fetched. ``known`` says that the rows were found
    to differ before: then documents that are not read are taken to differ still.
    """
    rest, pairs = _remove_tolerated(plan, rows, known)
    names = [column.name for column in plan.columns]
    columns = {column.name: column for column in plan.columns}
    masked = {column.name for column in plan.columns if column.masked}
    each = [
        accounting.differences(rest, names[: plan.key], names[plan.key :], masked, text_equalities(plan, strictly))
        for strictly in ([False, True] if known and plan.documents else [False])
    ]
    # Documents that were not read are listed among a row's columns only where nothing else explains the row.
    differences = [difference if difference.columns else other for difference, other in zip(each[0], each[-1], strict=True)]
    undecided = sum(any(are_documents_equal(plan, name, *pair) is None for name in plan.documents) for pair in pairs)
    return [
        dataclasses.replace(difference, columns=tuple(_readable_column(c, columns[c.name], length) for c in difference.columns))
        for difference in differences
    ], Tolerated(len(pairs) - undecided, undecided)


def _remove_tolerated(
    plan: Plan, rows: Mapping[Side, Sequence[Row]], known: bool
) -> tuple[Mapping[Side, Sequence[Row]], list[tuple[Row, Row]]]:
    """Return rows without pairs that count as equal, and these pairs.

    The rows must be fetched with their columns if the plan is tolerant.
    """
    if not plan.is_tolerant:
        return rows, []
    return accounting.remove_tolerated(rows, [column.name for column in plan.columns[plan.key :]], text_equalities(plan, known))


def text_equalities(plan: Plan, known: bool) -> dict[str, TextEquality]:
    """Return predicates by column, of those in which unequal texts may count as equal; documents that were not read do unless ``known``."""
    equalities = {column.name: text_equality(column) for column in plan.columns if column.tolerance}
    return equalities | {column.name: _document_equality(column, known) for column in plan.columns if column.by_value}


def _document_equality(column: ColumnPlan, known: bool) -> TextEquality:
    """Return a predicate: whether documents are equal, or were not read, unless they are ``known`` to differ."""

    def alike(source: str | None, target: str | None) -> bool:
        equal = _are_equal(column, source, target)
        return not known if equal is None else equal

    return alike


def are_documents_equal(plan: Plan, name: str, source: Row, target: Row) -> bool | None:
    """Return whether two fetched rows hold equal documents in a column; None where one was not read to its end."""
    place = next(index for index, column in enumerate(plan.columns) if column.name == name)
    return _are_equal(plan.columns[place], source.texts[place - plan.key], target.texts[place - plan.key])


def _are_equal(column: ColumnPlan, source: str | None, target: str | None) -> bool | None:
    if column.masked and source != target and None not in (source, target):
        return None  # of a masked document only its hash is read
    return documents.are_equal(source, target)


def _readable_column(difference: ColumnDifference, column: ColumnPlan, length: int) -> ColumnDifference:
    source, target = (canonical.readable(column.unrounded(side).kind, getattr(difference, side)) for side in SIDES)
    if column.by_value and not column.masked:
        source, target = (documents.shortened(text, length) for text in (source, target))
    alike = column.kind.is_free_text and not column.masked
    return ColumnDifference(difference.name, source, target, text_forms.reason(source, target) if alike else "")


def text_equality(column: ColumnPlan) -> TextEquality:
    """Return a predicate: whether the unrounded canonical texts of a column's two sides are equal or within its tolerance."""
    tolerance = column.tolerance
    of_source, of_target = (column.unrounded(side).kind for side in SIDES)

    def alike(source: str | None, target: str | None) -> bool:
        if tolerance is None or source is None or target is None:
            return source == target
        if source == target and of_source == of_target:
            return True
        a, b = exact_value(of_source, source), exact_value(of_target, target)
        if a is None or b is None:
            return canonical.readable(of_source, source) == canonical.readable(of_target, target)
        scale = max(abs(a), abs(b)) if tolerance.measure == "relative" else 1
        return abs(a - b) <= Fraction(tolerance.most) * scale

    return alike


def exact_value(kind: Kind, text: str) -> Fraction | None:
    """Return the number (for times: the seconds) of a canonical text; None for NaN, infinities, and text that is no value of its kind."""
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
    cycles, year = divmod(int(year), 400)  # years beyond 9999 become ones that datetime has
    try:
        days = dt.date(year + 400, int(month), int(day)).toordinal() + cycles * DAYS_OF_400_YEARS
    except ValueError:  # MySQL's 0000-00-00
        return None
    return days * SECONDS_PER_DAY + (_seconds(time) or Fraction(0) if time else Fraction(0))
