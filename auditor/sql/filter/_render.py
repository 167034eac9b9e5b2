"""Render a portable filter as the SQL of one side, so that it means the same on every engine.

Numbers are compared exactly: a literal never has more digits than the column it is compared with, and nothing overflows. Texts are
compared by exact characters. Dates and timestamps are compared with literals that the column's own type holds, so that an index serves.

Where the source holds a finer fraction than the target, its times count as the target's engine stored them: cut or rounded. Storing never
changes the order of two times, so that the stored time is at or after a moment exactly from some time of the source on. That time, its
threshold, is what the source's column is compared with.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NoReturn

from auditor.errors import BadExpression
from auditor.model import SIDES, Side
from auditor.sql.filter import _values
from auditor.sql.filter._bind import describe
from auditor.sql.filter._parser import WAY_OUT
from auditor.sql.filter._terms import Term, arithmetic_term, compare_number, compare_terms, literal_term, number_in
from auditor.sql.filter._tree import (
    Arithmetic,
    Call,
    Case,
    Column,
    CompareOp,
    Comparison,
    Condition,
    Constant,
    In,
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
    Wildcard,
)
from auditor.sql.filter._values import Value
from dialects import Column as TableColumn
from dialects import Dialect, Kind
from dialects.kinds import Rounding
from dialects.text import ESCAPE
from dialects.times import EPOCHS, MICROSECOND

Sort = Literal["text", "number", "float", "truth", "time", "other"]
"""What a column's values are to a filter. ``other``: nothing that the language knows, so that only IS NULL may be asked."""

TEXTS = frozenset({"text", "char", "enum", "set"})
NUMBERS = frozenset({"integer", "decimal", "year", "bit"})
TIMES = frozenset({"date", "timestamp", "timestamptz"})
INTEGER_DIGITS = {"tinyint": 3, "utinyint": 3, "smallint": 5, "usmallint": 5, "mediumint": 8, "int": 10, "integer": 10, "uinteger": 10}
"""Digits of integer types by native name; any other integer has up to 20."""

TRUE, FALSE = "1 = 1", "1 = 0"
EXAMPLES = {"text": "= 'draft'", "number": "<> 0", "float": "> 0.5", "truth": "= TRUE", "time": ">= DATE '2026-11-01'"}
"""What can be done with a column, by its sort, for messages."""

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


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A column of a filter on both sides."""

    name: str
    """The source's name."""
    sql: Mapping[Side, str]
    """Each side's quoted name."""
    columns: Mapping[Side, TableColumn]
    """Each side's column as the catalogue describes it."""
    rounding: Rounding = ""
    """How finer times of the source came into the target; empty if they were cut, or have no more digits than the target's."""

    def native(self, side: Side) -> Kind:
        """Return the kind of a side's own type; a type without canonical text counts as JSON, of which only IS NULL may be asked."""
        return self.columns[side].kind or Kind("json")

    @property
    def sort(self) -> Sort:
        """Return what the column is to a filter, by the kinds of both sides."""
        names = {self.native(side).name for side in SIDES}
        if names <= TEXTS:
            return "text"
        if "boolean" in names and names <= {"boolean", "integer", "bit"}:
            return "truth"
        if names <= NUMBERS and names != {"bit"}:
            return "number"
        if names in ({"float32"}, {"float64"}):
            return "float"
        return "time" if names <= TIMES else "other"

    @property
    def text_kind(self) -> Kind:
        """Return the kind of a text: where a side has fixed width, trailing blanks mean nothing on either side."""
        return Kind("char" if "char" in {self.native(side).name for side in SIDES} else "text")

    @property
    def in_days(self) -> bool:
        """Return whether a time is compared by its date, because a side holds nothing finer."""
        return "date" in {self.native(side).name for side in SIDES} and self.native("target").name == "date"

    def scale(self, side: Side) -> int | None:
        """Return the digits after the point with which a side's number is compared: no more than the target holds; None if unlimited.

        A source with more of them than the target is rounded to the target's, as the target rounded when it stored the value.
        """
        source, target = (0 if self.native(side).name != "decimal" else self.native(side).scale for side in SIDES)
        if side == "target" or target is None:
            return target if side == "target" else source
        return target if source is None else min(source, target)

    def is_rounded(self, side: Side) -> bool:
        """Return whether a side's number is rounded before it is compared."""
        return self.native(side).name == "decimal" and self.native(side).scale != self.scale(side)

    def digits(self, side: Side) -> int | None:
        """Return the most digits that a side's number may have, with those after the point; None if unlimited."""
        native = self.native(side)
        match native.name:
            case "decimal":
                if native.digits is None or native.scale is None:
                    return None
                more = 1 if self.is_rounded(side) else 0  # 9.99 becomes 10.0
                return native.digits - native.scale + (self.scale(side) or 0) + more
            case "year":
                return 4
            case "bit":
                return 20
        name = re.match(r"[a-z]*", self.columns[side].native.lower())
        return INTEGER_DIGITS.get(name.group() if name else "", 20 if native.unsigned else 19)

    def types(self) -> str:
        """Return the types of both sides, for a message."""
        return " and ".join(f"{self.columns[side].native} in the {side}" for side in SIDES)

    @property
    def shortened_to(self) -> int | None:
        """Return the digits of a second that the target holds if the source's times have more; None if they came whole, or as dates."""
        source, target = (_values.fraction_digits(self.native(side)) for side in SIDES)
        return target if not self.in_days and source > target else None


@dataclass(frozen=True, slots=True)
class Renderer:
    """What the SQL of one side depends on."""

    columns: Mapping[str, FilterColumn]
    """The filter's columns, by their names as written."""
    side: Side
    """The side."""
    dialect: Dialect
    """The dialect of the side."""

    def condition(self, condition: Condition, helped: bool = True) -> str:
        """Return SQL of a bound condition. ``helped``: it is not negated, so that plain comparisons may be added for an index."""
        match condition:
            case Truth(value=value):
                return TRUE if value else FALSE
            case Not(condition=inner):
                return f"NOT ({self.condition(inner, helped=False)})"
            case Junction(op=op, conditions=conditions):
                return "(" + f" {op} ".join(self.condition(part, helped) for part in conditions) + ")"
            case IsNull(column=column):
                filtered = self.columns[column.name]
                return self.dialect.text.is_null(filtered.sql[self.side], filtered.native(self.side))
            case Comparison(op=op, left=left, right=right):
                return self._constant(op, left, right, helped) if isinstance(right, Constant) else self._operands(op, left, right)
            case In(operand=operand, values=values):
                return self._in(operand, values, helped)
            case Like(operand=Call() | Case() as operand, pattern=pattern):
                computed = self.value(operand)
                if computed.sort != "text":
                    raise BadExpression(f"LIKE takes a text, and {describe(operand)} is {_values.SORTS[computed.sort]}")
                return self.dialect.text.like(computed.sql, _pattern(pattern))
            case Like(operand=operand, pattern=pattern):
                text = self._column(operand)
                if text is None or text.sort != "text":
                    raise BadExpression(f"LIKE takes a column of text, and {self._what(operand)}; {WAY_OUT}")
                return like(text, pattern, self.side, self.dialect, helped)

    def value(self, value: Operand) -> Value:
        """Return SQL of a bound value, with what it is. Raises BadExpression for one that no engine computes alike."""
        match value:
            case Column(name=name):
                return self._value_of_column(self.columns[name])
            case Text(value=text):
                return Value(self.dialect.text.characters(self.dialect.names.string_literal(text)), Kind("text"))
            case Number() | Arithmetic():
                return _values.number_value(self._term(value), self.dialect)
            case Moment(value=moment):
                return _values.moment_value(moment, self.dialect)
            case Null():
                return _values.NULL
            case Case(branches=branches, otherwise=otherwise):
                conditions = [self.condition(condition, helped=False) for condition, _ in branches]
                results = [*(self.value(result) for _, result in branches), self.value(otherwise)]
                return _values.case_value(conditions, results, self.dialect)
            case Call(name="COALESCE", arguments=arguments):
                return _values.coalesce_value([self.value(argument) for argument in arguments], self.dialect)
            case Call(name="||", arguments=arguments):
                return _values.joined_value([self.value(argument) for argument in arguments], self.dialect)
            case Call(name=name, arguments=arguments):
                written = arguments[1:]
                counts = [int(argument.value) for argument in written if isinstance(argument, Number)]
                texts = [argument.value for argument in written if isinstance(argument, Text)]
                return _values.function_value(name, [self.value(arguments[0])], counts, texts, self.dialect)
        raise BadExpression(f"{describe(value)} is no value of a row; write a text, a number, a date or time, or CASE")

    def _value_of_column(self, column: FilterColumn) -> Value:
        native = column.native(self.side)
        match column.sort:
            case "text":
                return Value(_characters(column, self.side, self.dialect), Kind("text"))
            case "number":
                return _values.number_value(column_term(column, self.side, self.dialect), self.dialect)
            case "time" if column.shortened_to is None and not (column.in_days and native.name != "date"):
                digits = min(_values.fraction_digits(column.native(side)) for side in SIDES)
                return Value(column.sql[self.side], native, fraction=digits)
            case "truth":
                raise BadExpression(f"the column {column.name!r} is a condition; write CASE WHEN {column.name} THEN 1 ELSE 0 END")
        raise BadExpression(f"nothing is computed from the column {column.name!r} ({column.types()}), which engines do not hold alike")

    def _constant(self, op: CompareOp, left: Operand, value: Operand, helped: bool) -> str:
        if isinstance(left, Call | Case):
            return self._values(op, left, value)
        column = self._column(left)
        match value:
            case Text(value=text) if column and column.sort == "text":
                return compare_text(op, column, text, self.side, self.dialect, helped)
            case Truth(value=truth) if column and column.sort == "truth" and op in ("=", "<>"):
                sql = self._truth(column)
                return sql if truth == (op == "=") else f"NOT ({sql})"
            case Moment(value=moment) if column and column.sort == "time":
                return compare_time(op, column, moment, self.side, self.dialect)
            case Number(value=number) if column and column.sort == "float":
                double = self.dialect.numbers.as_double(column.sql[self.side])
                return f"{double} {op} {float_literal(number, self.dialect)}"
            case Number(value=number) if self._is_number(left):
                return compare_number(op, self._term(left), number, self.dialect)
        return self._refuse(left, value, op)

    def _operands(self, op: CompareOp, left: Operand, right: Operand) -> str:
        """Return the comparison of two operands that depend on the row."""
        if isinstance(left, Call | Case) or isinstance(right, Call | Case):
            return self._values(op, left, right)
        if self._is_number(left) and self._is_number(right):
            return compare_terms(op, self._term(left), self._term(right), self.dialect)
        first, other = self._column(left), self._column(right)
        if first and other and first.sort == other.sort:
            match first.sort:
                case "text":
                    return compare_text_columns(op, first, other, self.side, self.dialect)
                case "time":
                    return compare_time_columns(op, first, other, self.side)
                case "float":
                    as_double = self.dialect.numbers.as_double
                    return f"{as_double(first.sql[self.side])} {op} {as_double(other.sql[self.side])}"
                case "truth" if op in ("=", "<>"):
                    return f"({self._truth(first)}) {op} ({self._truth(other)})"
        return self._refuse(left, right, op)

    def _values(self, op: CompareOp, left: Operand, right: Operand) -> str:
        """Return the comparison of two values of which one is computed."""
        if isinstance(right, Number) and (term := self.value(left).term):
            return compare_number(op, term, right.value, self.dialect)
        first, other = _values.unify([self.value(left), self.value(right)], op, self.dialect)
        if first.term and other.term:
            return compare_terms(op, first.term, other.term, self.dialect)
        if first.sort == "text":
            return f"{self.dialect.text.exact_text(first.sql)} {op} {self.dialect.text.exact_text(other.sql)}"
        return f"{first.sql} {op} {other.sql}"

    def _in(self, operand: Operand, values: tuple[Operand, ...], helped: bool) -> str:
        column = self._column(operand)
        texts = [value.value for value in values if isinstance(value, Text)]
        if column and column.sort == "text" and len(texts) == len(values):
            return text_in(column, texts, self.side, self.dialect, helped)
        numbers = [value.value for value in values if isinstance(value, Number)]
        if self._is_number(operand) and len(numbers) == len(values):
            return number_in(self._term(operand), numbers, self.dialect)
        return "(" + " OR ".join(self._constant("=", operand, value, helped) for value in values) + ")"

    def _column(self, operand: Operand) -> FilterColumn | None:
        return self.columns[operand.name] if isinstance(operand, Column) else None

    def _truth(self, column: FilterColumn) -> str:
        """Return SQL of a column of truth values as a condition; a number other than 0 is true."""
        c, native = column.sql[self.side], column.native(self.side)
        return c if native.name == "boolean" else f"{self.dialect.numbers.as_number(c, native)} <> 0"

    def _is_number(self, operand: Operand) -> bool:
        column = self._column(operand)
        return column.sort == "number" if column else isinstance(operand, Number | Arithmetic)

    def _term(self, operand: Operand) -> Term:
        """Return SQL of a number."""
        match operand:
            case Arithmetic(left=left, right=right):
                return arithmetic_term(operand, self._term(left), self._term(right), self.dialect)
            case Number(value=value):
                return literal_term(value, self.dialect)
            case Column(name=name) if self.columns[name].sort == "number":
                return column_term(self.columns[name], self.side, self.dialect)
            case Call() | Case() if term := self.value(operand).term:
                return term
        raise BadExpression(f"+ - * calculate with whole numbers and decimals, and {self._what(operand)}; {WAY_OUT}")

    def _refuse(self, left: Operand, right: Operand, op: CompareOp) -> NoReturn:
        """Raise the error for operands that cannot be compared; it says what the column can be compared with."""
        column = self._column(left) or self._column(right)
        example = f"write {column.name} {EXAMPLES[column.sort]}, or " if column and column.sort != "other" else ""
        raise BadExpression(f"{self._named(left)} cannot be compared with {self._named(right)} by {op}; {example}{WAY_OUT}")

    def _named(self, operand: Operand) -> str:
        """Return an operand for a message, a column with its types."""
        column = self._column(operand)
        return f"the column {column.name!r} ({column.types()})" if column else describe(operand)

    def _what(self, operand: Operand) -> str:
        """Return the clause that an operand is something else, for a message."""
        column = self._column(operand)
        return f"the column {column.name!r} is {column.types()}" if column else f"{describe(operand)} is none"


def column_term(column: FilterColumn, side: Side, dialect: Dialect) -> Term:
    """Return a column as it is, rounded if the other side holds fewer digits after the point."""
    native = column.native(side)
    sql = dialect.numbers.as_number(column.sql[side], native)
    if column.is_rounded(side):
        sql = f"ROUND({sql}, {column.scale(side)})"
    digits, scale = column.digits(side), column.scale(side)
    if native.name != "integer":
        return Term(sql, digits, scale)
    least, greatest = (0, 2**64 - 1) if native.unsigned else (-(2**63), 2**63 - 1)
    return Term(sql, digits, scale, Decimal(least), Decimal(greatest))


def float_literal(value: Decimal, dialect: Dialect) -> str:
    """Return the double nearest to a literal."""
    return dialect.numbers.double_literal(repr(float(value)))


def _characters(column: FilterColumn, side: Side, dialect: Dialect) -> str:
    return dialect.canonical.canonical_text(column.text_kind, column.sql[side], column.native(side))


def compare_text_columns(op: CompareOp, left: FilterColumn, right: FilterColumn, side: Side, dialect: Dialect) -> str:
    """Return the comparison of two columns."""
    exact = (dialect.text.exact_text(_characters(column, side, dialect)) for column in (left, right))
    return f" {op} ".join(exact)


def compare_text(op: CompareOp, column: FilterColumn, value: str, side: Side, dialect: Dialect, helped: bool) -> str:
    """Return the comparison of a column with a literal; ``helped`` adds the plain comparison, for which an index serves, if it follows."""
    literal = dialect.text.exact_text(dialect.names.string_literal(value))
    exact = f"{dialect.text.exact_text(_characters(column, side, dialect))} {op} {literal}"
    plain = _plain_literals(column, [value], side, dialect) if helped and op == "=" else []
    return f"({column.sql[side]} = {plain[0]} AND {exact})" if plain else exact


def text_in(column: FilterColumn, values: Sequence[str], side: Side, dialect: Dialect, helped: bool) -> str:
    """Return whether a column equals one of several literals; ``helped`` as in ``compare``."""
    literals = ", ".join(dialect.text.exact_text(dialect.names.string_literal(value)) for value in values)
    exact = f"{dialect.text.exact_text(_characters(column, side, dialect))} IN ({literals})"
    plain = _plain_literals(column, values, side, dialect) if helped else []
    return f"({column.sql[side]} IN ({', '.join(plain)}) AND {exact})" if plain else exact


def like(column: FilterColumn, pattern: Sequence[str | Wildcard], side: Side, dialect: Dialect, helped: bool) -> str:
    """Return whether a column has the form of a pattern; ``helped`` adds its fixed beginning where an index serves that."""
    exact = dialect.text.like(_characters(column, side, dialect), _pattern(pattern))
    begin = pattern[0] if pattern else ""
    has_begin = helped and dialect.text.INDEX_SERVES_LIKE and isinstance(begin, str) and begin != ""
    plain = _plain_literals(column, [_escape(str(begin)) + "%"], side, dialect) if has_begin else []
    return f"({column.sql[side]} LIKE {plain[0]} ESCAPE '{ESCAPE}' AND {exact})" if plain else exact


def _pattern(parts: Sequence[str | Wildcard]) -> str:
    return "".join(part.value if isinstance(part, Wildcard) else _escape(part) for part in parts)


def _plain_literals(column: FilterColumn, values: Sequence[str], side: Side, dialect: Dialect) -> list[str]:
    """Return literals for a plain comparison of a column; none if that is not true whenever the exact one is.

    It is not if trailing blanks are left out on this side, although its type keeps them. Labels of an enum are compared in other ways.
    """
    native = column.native(side).name
    if native != "char" and not (native == "text" and column.text_kind.name == "text"):
        return []
    literals = [dialect.text.plain_literal(value, column.columns[side].collation) for value in values]
    return [literal for literal in literals if literal] if None not in literals else []


def _escape(text: str) -> str:
    return "".join(ESCAPE + character if character in (ESCAPE, "%", "_") else character for character in text)


def compare_time(op: CompareOp, column: FilterColumn, moment: dt.datetime, side: Side, dialect: Dialect) -> str:
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
        return f"{self.c} {op} {self.dialect.names.timestamp_literal(text + (f'{below:03}' if below else ''))}"

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
            f"the column {self.name!r} is compared with a time that the target stores outside the years 1 to 9999;"
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
    return f"{c} {op} {dialect.names.date_literal(midnight.date().isoformat())}"


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


def compare_time_columns(op: CompareOp, left: FilterColumn, right: FilterColumn, side: Side) -> str:
    """Return the comparison of two columns. Raises BadExpression if one of them is compared otherwise than by its own values."""
    for column in (left, right):
        days = column.in_days and column.native(side).name != "date"
        if days or column.shortened_to is not None:
            how = "by its date" if column.in_days else "as the target stores it"
            raise BadExpression(f"the column {column.name!r} is {column.types()}: it is compared {how}, and with literals only; {WAY_OUT}")
    return f"{left.sql[side]} {op} {right.sql[side]}"
