"""The tree of a portable filter or value: operands, which have values, and conditions, which are true, false or unknown."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Literal

CompareOp = Literal["=", "<>", "<", "<=", ">", ">="]
ArithmeticOp = Literal["+", "-", "*"]

FLIPPED: dict[CompareOp, CompareOp] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that holds when both operands change places."""


class Wildcard(Enum):
    """A part of a LIKE pattern that is not plain text."""

    ANY = "%"
    """Any characters, or none."""
    ONE = "_"
    """Exactly one character."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by the source's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text literal."""

    value: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number literal, exact."""

    value: Decimal


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE or FALSE; also a condition."""

    value: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A DATE or TIMESTAMP literal in UTC, without time zone; a date is its midnight."""

    value: dt.datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """``now``, or ``today`` (the midnight before it): the source's clock, in UTC."""

    name: Literal["now", "today"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An INTERVAL literal: whole months, and a duration of fixed length."""

    months: int
    duration: dt.timedelta


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A sum, difference or product."""

    op: ArithmeticOp
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Null:
    """NULL, as what a case yields."""


@dataclass(frozen=True, slots=True)
class Case:
    """The operand of the first condition that is true; ``otherwise`` if none is."""

    branches: tuple[tuple[Condition, Operand], ...]
    otherwise: Operand


@dataclass(frozen=True, slots=True)
class Call:
    """A function of operands, by its name in capitals; ``||`` is one, too."""

    name: str
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two operands; unknown if either is NULL."""

    op: CompareOp
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class In:
    """Whether an operand equals one of several values; unknown if it is NULL."""

    operand: Operand
    values: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text has the form of a pattern: plain texts and wildcards in turn; unknown if it is NULL."""

    operand: Operand
    pattern: tuple[str | Wildcard, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is NULL; never unknown."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition; unknown stays unknown."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions joined by AND or OR, at least two."""

    op: Literal["AND", "OR"]
    conditions: tuple[Condition, ...]


Constant = Text | Number | Truth | Moment
"""An operand whose value is known before any row is read."""
Operand = Column | Text | Number | Truth | Moment | Clock | Interval | Arithmetic | Null | Case | Call
Condition = Comparison | In | Like | IsNull | Not | Junction | Truth


def operands(condition: Condition) -> list[Operand]:
    """Return every operand of a condition, and the operands of these."""
    match condition:
        case Junction(conditions=conditions):
            return [operand for condition in conditions for operand in operands(condition)]
        case Not(condition=inner):
            return operands(inner)
        case IsNull(column=column):
            return [column]
        case Comparison(left=left, right=right):
            return _with_parts(left) + _with_parts(right)
        case In(operand=operand, values=values):
            return [part for node in (operand, *values) for part in _with_parts(node)]
        case Like(operand=operand):
            return _with_parts(operand)
        case Truth():
            return [condition]


def _with_parts(operand: Operand) -> list[Operand]:
    match operand:
        case Arithmetic(left=left, right=right):
            return [operand, *_with_parts(left), *_with_parts(right)]
        case Call(arguments=arguments):
            return [operand, *(part for argument in arguments for part in _with_parts(argument))]
        case Case(branches=branches, otherwise=otherwise):
            parts = [part for condition, value in branches for part in (*operands(condition), *_with_parts(value))]
            return [operand, *parts, *_with_parts(otherwise)]
    return [operand]


def _all_parts(written: Condition | Operand) -> list[Operand]:
    return operands(written) if isinstance(written, Comparison | In | Like | IsNull | Not | Junction | Truth) else _with_parts(written)


def reads_clock(written: Condition | Operand) -> bool:
    """Return whether a filter or value contains ``now`` or ``today``."""
    return any(isinstance(operand, Clock) for operand in _all_parts(written))


def column_names(written: Condition | Operand) -> list[str]:
    """Return the names of the columns of a filter or value as they are written, each once, in order."""
    return list(dict.fromkeys(operand.name for operand in _all_parts(written) if isinstance(operand, Column)))


def is_true(condition: Condition) -> Condition:
    """Return the condition that another one is true: false where that is false, or unknown."""
    return Comparison("=", _truth(condition), Number(Decimal(1)))


def is_not_true(condition: Condition) -> Condition:
    """Return the condition that another one is false or unknown; it is itself never unknown."""
    return Comparison("=", _truth(condition), Number(Decimal(0)))


def _truth(condition: Condition) -> Operand:
    return Case(((condition, Number(Decimal(1))),), Number(Decimal(0)))
