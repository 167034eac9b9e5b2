"""Compute what is known before any row is read: the clock, sums of literals, comparisons of literals.

Afterwards an operand is a constant, a column, or arithmetic over columns and numbers. Intervals of fixed length that are added to a column
are moved to the other operand: ``at + INTERVAL '1' day > now`` becomes ``at > now - INTERVAL '1' day``, which no engine can overflow.
"""

from __future__ import annotations

import calendar
import datetime as dt
import operator
from collections.abc import Callable
from decimal import Context
from typing import Any

from auditor.errors import BadExpression
from auditor.sql.filter._parser import WAY_OUT
from auditor.sql.filter._tree import (
    FLIPPED,
    Arithmetic,
    Call,
    Case,
    Clock,
    Column,
    CompareOp,
    Comparison,
    Condition,
    Constant,
    In,
    Interval,
    IsNull,
    Junction,
    Like,
    Moment,
    Not,
    Null,
    Number,
    Operand,
    Text,
    Truth,
    reads_clock,
)

EXACT = Context(prec=200)
"""Enough digits for any product of literals that is accepted."""

COMPARE: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def bind(condition: Condition, now: dt.datetime | None) -> Condition:
    """Return the condition with everything computed that no row decides.

    ``now`` is the source's clock in UTC, needed if the filter reads it. Raises BadExpression.
    """
    match condition:
        case Junction(op=op, conditions=conditions):
            return Junction(op, tuple(bind(condition, now) for condition in conditions))
        case Not(condition=inner):
            return Not(bind(inner, now))
        case Comparison(op=op, left=left, right=right):
            return _comparison(op, _operand(left, now), _operand(right, now))
        case In(operand=operand, values=values):
            return _membership(_operand(operand, now), tuple(_operand(value, now) for value in values))
        case Like(operand=operand):
            return Like(_operand(operand, now), condition.pattern)
        case IsNull() | Truth():
            return condition


def bind_value(value: Operand) -> Operand:
    """Return a value with everything computed that no row decides. Raises BadExpression if it reads the clock."""
    if reads_clock(value):
        raise BadExpression("a value that is computed for each row cannot contain now or today, which change without it; write a literal")
    return _operand(value, None)


def _operand(operand: Operand, now: dt.datetime | None) -> Operand:
    match operand:
        case Clock(name=name):
            if now is None:
                raise ValueError("the filter reads the clock, and no time was given")
            return Moment(now if name == "now" else dt.datetime.combine(now, dt.time()))
        case Arithmetic():
            return _arithmetic(operand, _operand(operand.left, now), _operand(operand.right, now))
        case Case(branches=branches, otherwise=otherwise):
            bound = tuple((bind(condition, now), _operand(value, now)) for condition, value in branches)
            return Case(bound, _operand(otherwise, now))
        case Call(name=name, arguments=arguments):
            return Call(name, tuple(_operand(argument, now) for argument in arguments))
        case _:
            return operand


def _arithmetic(written: Arithmetic, left: Operand, right: Operand) -> Operand:
    op = written.op
    if isinstance(left, Interval) and op == "+" and not isinstance(right, Interval):
        left, right = right, left
    match left, right:
        case Number(value=a), Number(value=b):
            return Number({"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}[op](a, b))
        case Moment(value=moment), Interval() if op in "+-":
            return Moment(_shift(moment, right, 1 if op == "+" else -1))
        case _, Interval() if op in "+-" and not isinstance(left, Number | Text | Truth | Interval):
            return Arithmetic(op, left, right)
    if any(isinstance(operand, Text | Truth | Moment | Interval | Null) for operand in (left, right)):
        raise BadExpression(
            "+ - * calculate with numbers, and + - add an interval to a time (at < now - INTERVAL '7' day); write one of these"
        )
    return Arithmetic(op, left, right)


def _shift(moment: dt.datetime, by: Interval, sign: int) -> dt.datetime:
    """Return a moment some months later, on the month's last day if it is shorter, and then a duration later."""
    try:
        year, month = divmod(moment.year * 12 + moment.month - 1 + sign * by.months, 12)
        last = calendar.monthrange(year, month + 1)[1]
        return moment.replace(year=year, month=month + 1, day=min(moment.day, last)) + sign * by.duration
    except (OverflowError, ValueError):
        raise BadExpression("a time with its interval is outside the years 1 to 9999; write a shorter interval") from None


def _comparison(op: CompareOp, left: Operand, right: Operand) -> Condition:
    if isinstance(left, Constant):
        op, left, right = FLIPPED[op], right, left
    while isinstance(left, Arithmetic) and isinstance(left.right, Interval):
        by = left.right
        if by.months:
            raise BadExpression(
                "months and years have no fixed length, so they are added to now, today or a literal only;"
                " write the interval on that side, or in days"
            )
        if not isinstance(right, Moment):
            raise _shifted()
        right = Moment(_shift(right.value, by, 1 if left.op == "-" else -1))
        left = left.left
    if isinstance(right, Arithmetic) and isinstance(right.right, Interval):
        raise _shifted()
    if not (isinstance(left, Constant) and isinstance(right, Constant)):
        return Comparison(op, left, right)
    if type(left) is not type(right):
        raise BadExpression(f"{describe(left)} and {describe(right)} cannot be compared; write two values of one kind")
    return Truth(COMPARE[op](*(operand.value.encode() if isinstance(operand, Text) else operand.value for operand in (left, right))))


def _shifted() -> BadExpression:
    return BadExpression(f"a column with an interval is compared with now, today or a literal only; {WAY_OUT}")


def _membership(operand: Operand, values: tuple[Operand, ...]) -> Condition:
    for value in values:
        if not isinstance(value, Constant):
            raise BadExpression("IN takes literals, now and today; write a = b OR a = c to compare with columns")
    if isinstance(operand, Column) or (isinstance(operand, Arithmetic) and not isinstance(operand.right, Interval)):
        return In(operand, values)
    comparisons = tuple(_comparison("=", operand, value) for value in values)
    return comparisons[0] if len(comparisons) == 1 else Junction("OR", comparisons)


def describe(operand: Operand) -> str:
    """Return what an operand is, for a message."""
    match operand:
        case Column(name=name):
            return f"the column {name!r}"
        case Text(value=value):
            return f"the text {value[:40]!r}"
        case Number(value=number):
            return f"the number {number:f}"
        case Truth(value=truth):
            return str(truth).upper()
        case Moment() | Clock():
            return "a time"
        case Interval():
            return "an interval"
        case Arithmetic():
            return "a number"
        case Null():
            return "NULL"
        case Case():
            return "a CASE"
        case Call(name=name):
            return f"the result of {name}"
