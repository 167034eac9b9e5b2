"""Render comparisons of dates and timestamps with literals that the column's own type holds, so that an index serves.

Where the source holds a finer fraction than the target, its times count as the target's engine stored them: cut or rounded. Storing never
changes the order of two times, so that the stored time is at or after a moment exactly from some time of the source on. That time, its
threshold, is what the source's column is compared with.
"""

from __future__ import annotations

import datetime as dt
from typing import NoReturn

from auditor.errors import BadExpression
from auditor.model import Side
from auditor.sql.filter._columns import FilterColumn
from auditor.sql.filter._tokens import WAY_OUT
from auditor.sql.filter._tree import CompareOp
from dialects import Dialect
from dialects.kinds import Rounding
from dialects.time_text import EPOCHS, MICROSECOND

SECOND = 10**9
"""Nanoseconds, in which times are counted here, from the beginning of 1970."""
DAY = 86_400 * SECOND
UNIX = dt.datetime(1970, 1, 1)
END = int((dt.datetime(9999, 12, 31) - UNIX).total_seconds()) * SECOND + DAY
"""The moment after the last year that every engine can write."""
FINEST = 9
"""Digits of a second of the types that count nanoseconds in 64 bits, from 1970 on."""
NANOSECOND_RANGE = (-(2**63) + SECOND, 2**63 - SECOND)
"""What these types hold, but for a second at each end."""


def compare(op: CompareOp, column: FilterColumn, moment: dt.datetime, side: Side, dialect: Dialect) -> str:
    """Return the comparison of a column with a moment: of its date's midnight if the column is compared by its date."""
    here = _Times(column, side, dialect)
    if column.native(side).name == "date":
        return _compare_date(op, here.c, moment, dialect)
    if column.in_days:
        return _compare_day_of_timestamp(op, here, moment)
    digits = column.shortened_to
    if digits is None:
        return here.compare(op, _nanoseconds(moment))
    unit = 10 ** (9 - digits)
    stored = _store(_nanoseconds(moment), unit, column.rounding)
    match op:
        case ">=":
            return here.from_stored(stored, unit)
        case "<":
            return here.before_stored(stored, unit)
        case ">":
            return here.from_stored(stored + unit, unit)
        case "<=":
            return here.before_stored(stored + unit, unit)
        case "=":
            return f"({here.from_stored(stored, unit)} AND {here.before_stored(stored + unit, unit)})"
        case "<>":
            return f"({here.before_stored(stored, unit)} OR {here.from_stored(stored + unit, unit)})"


class _Times:
    """The times of a column on one side."""

    def __init__(self, column: FilterColumn, side: Side, dialect: Dialect) -> None:
        self.c = column.sql[side]
        self.name = column.name
        self.digits = column.native(side).scale
        self.dialect = dialect
        self.rounding: Rounding = column.rounding if side == "source" else ""

    def from_stored(self, moment: int, unit: int) -> str:
        """Return whether a time, stored in whole ``unit``, is at or after a moment that is a whole number of these."""
        return self.compare(">=", self._threshold(moment, unit))

    def before_stored(self, moment: int, unit: int) -> str:
        """Return whether a time, stored in whole ``unit``, is before a moment that is a whole number of these."""
        return self.compare("<", self._threshold(moment, unit))

    def compare(self, op: CompareOp, moment: int) -> str:
        """Return the comparison of a time, as it is, with a moment."""
        if self.digits == FINEST and not NANOSECOND_RANGE[0] <= moment <= NANOSECOND_RANGE[1]:
            holds = op == "<>" or (op != "=" and (op in (">", ">=")) == (moment < 0))
            return f"{self.c} {'=' if holds else '<>'} {self.c}"
        if moment == END and op in ("<", ">="):  # there is no literal of it
            op, moment = ("<=" if op == "<" else ">"), END - MICROSECOND
        try:
            text = (UNIX + dt.timedelta(microseconds=moment // MICROSECOND)).isoformat(" ", "microseconds")
        except OverflowError:
            self._refuse()
        below = moment % MICROSECOND
        return f"{self.c} {op} {self.dialect.timestamp_literal(text + (f'{below:03}' if below else ''))}"

    def _threshold(self, moment: int, unit: int) -> int:
        """Return the first time that is stored as this moment, or as a later one."""
        if not self.rounding:
            return moment
        threshold = moment - unit // 2
        year = EPOCHS.get(self.rounding)
        if year is None or threshold >= _nanoseconds(dt.datetime(year, 1, 1)):
            return threshold
        return threshold + (1 if self.digits == FINEST else MICROSECOND)

    def _refuse(self) -> NoReturn:
        raise BadExpression(
            f"where: the column {self.name!r} is compared with a time that the target stores outside the years 1 to 9999;"
            f" write one within these years, or {WAY_OUT}"
        )


def _store(moment: int, unit: int, rounding: Rounding) -> int:
    """Return a moment as an engine stores it in whole ``unit``."""
    if rounding:
        year = EPOCHS.get(rounding)
        away = year is not None and moment < _nanoseconds(dt.datetime(year, 1, 1))
        moment += unit // 2 - (1 if away else 0)
    return moment - moment % unit


def _nanoseconds(moment: dt.datetime) -> int:
    return (moment - UNIX) // dt.timedelta(microseconds=1) * MICROSECOND


def _compare_date(op: CompareOp, c: str, moment: dt.datetime, dialect: Dialect) -> str:
    midnight = dt.datetime.combine(moment, dt.time())
    if midnight != moment:
        if op in ("=", "<>"):
            return f"{c} <> {c}" if op == "=" else f"{c} = {c}"
        op = "<=" if op in ("<", "<=") else ">"  # a date is before noon if its midnight is, or is that midnight
    return f"{c} {op} {dialect.date_literal(midnight.date().isoformat())}"


def _compare_day_of_timestamp(op: CompareOp, here: _Times, moment: dt.datetime) -> str:
    """Return the comparison of the date that the target stored of a timestamp, as one of the timestamp itself."""
    midnight = _nanoseconds(dt.datetime.combine(moment, dt.time()))
    is_midnight = midnight == _nanoseconds(moment)
    match op:
        case "=" | "<>" if not is_midnight:
            return f"{here.c} <> {here.c}" if op == "=" else f"{here.c} = {here.c}"
        case "=":
            return f"({here.from_stored(midnight, SECOND)} AND {here.before_stored(midnight + DAY, SECOND)})"
        case "<>":
            return f"({here.before_stored(midnight, SECOND)} OR {here.from_stored(midnight + DAY, SECOND)})"
        case ">=" if is_midnight:
            return here.from_stored(midnight, SECOND)
        case "<" if is_midnight:
            return here.before_stored(midnight, SECOND)
        case ">" | ">=":
            return here.from_stored(midnight + DAY, SECOND)
        case _:
            return here.before_stored(midnight + DAY, SECOND)


def compare_columns(op: CompareOp, left: FilterColumn, right: FilterColumn, side: Side) -> str:
    """Return the comparison of two columns. Raises BadExpression if one of them is compared otherwise than by its own values."""
    for column in (left, right):
        days = column.in_days and column.native(side).name != "date"
        if days or column.shortened_to is not None:
            how = "by its date" if column.in_days else "as the target stores it"
            raise BadExpression(
                f"where: the column {column.name!r} is {column.types()}: it is compared {how}, and with literals only; {WAY_OUT}"
            )
    return f"{left.sql[side]} {op} {right.sql[side]}"
