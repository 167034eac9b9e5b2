"""Render values of the portable language: cases, functions, and what their results are on every engine.

Numbers are exact decimals of the fewest digits that hold every result. Texts are sequences of characters (code points), whatever
collation a column has; only the letters A to Z have another case. The parts of a time are read from its canonical text, which is the same
on every engine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from auditor.errors import BadExpression
from auditor.sql.filter._terms import Term, cast_number, check_size
from dialects import Dialect, Kind

DATE_FORM = "____-__-__%"
"""The canonical text of a date or time of the years 1 to 9999."""
ZERO_DATES = "0000-%"
"""Those of MySQL's zero dates, which are no dates elsewhere."""
LENGTH_DIGITS = 10
"""Digits of the length of the longest text."""

PARTS = {"YEAR": (1, 4), "MONTH": (6, 2), "DAY": (9, 2), "HOUR": (12, 2), "MINUTE": (15, 2), "SECOND": (18, 2)}
"""Where parts of a time stand in its canonical text, counted from 1, and how many digits they have."""


@dataclass(frozen=True, slots=True)
class Value:
    """SQL of a value, with what it is."""

    sql: str
    kind: Kind | None
    """The kind of the SQL's own type: a text, decimal, date or timestamp; None for NULL."""
    term: Term | None = None
    """Of a number."""
    moment: dt.datetime | None = None
    """Of the literal of a date or time, which counts as either."""
    fraction: int = 0
    """Of a time, the most digits of a second that are not 0: fewer, perhaps, than its type has."""

    @property
    def sort(self) -> str:
        """Return what it can be compared with and joined to: ``text``, ``number`` or ``time``; ``null`` for NULL."""
        if self.kind is None:
            return "null"
        return "number" if self.term else "text" if self.kind.name == "text" else "time"


NULL = Value("NULL", None)

SORTS = {"text": "a text", "number": "a number", "time": "a date or time", "null": "NULL"}


def number_value(term: Term, dialect: Dialect) -> Value:
    """Return a number as a decimal of its digits. Raises BadExpression if it has too many."""
    cast = cast_number(term, dialect)
    return Value(cast.sql, Kind("decimal", cast.digits, cast.scale), cast)


def moment_value(moment: dt.datetime, dialect: Dialect) -> Value:
    """Return the literal of a date or time."""
    text = moment.isoformat(" ", "microseconds")
    digits = len(f"{moment.microsecond:06}".rstrip("0"))
    return Value(dialect.names.timestamp_literal(text), Kind("timestamp", scale=6), moment=moment, fraction=digits)


def case_value(conditions: Sequence[str], results: Sequence[Value], dialect: Dialect) -> Value:
    """Return the first of several results whose condition holds; the last result has none."""
    *values, otherwise = unify(results, "CASE", dialect)
    branches = " ".join(f"WHEN {condition} THEN {value.sql}" for condition, value in zip(conditions, values, strict=True))
    return _like_first([*values, otherwise], f"CASE {branches} ELSE {otherwise.sql} END")


def coalesce_value(values: Sequence[Value], dialect: Dialect) -> Value:
    """Return the first value that is not NULL."""
    alike = unify(values, "COALESCE", dialect)
    return _like_first(alike, f"COALESCE({', '.join(value.sql for value in alike)})")


def _like_first(alike: Sequence[Value], sql: str) -> Value:
    """Return SQL of the type that values have which are not NULL."""
    typed = next(value for value in alike if value.kind)
    term = Term(sql, typed.term.digits, typed.term.scale, is_cast=True) if typed.term else None
    return Value(sql, typed.kind, term, fraction=max(value.fraction for value in alike))


def unify(values: Sequence[Value], what: str, dialect: Dialect) -> list[Value]:
    """Return values of one type, which holds all of them; ``what`` yields or compares them. Raises BadExpression if there is none."""
    sorts = list(dict.fromkeys(value.sort for value in values if value.kind))
    if not sorts:
        raise BadExpression(f"{what} yields nothing but NULL; give it a value")
    if len(sorts) > 1:
        raise BadExpression(f"{what} cannot have {SORTS[sorts[0]]} beside {SORTS[sorts[1]]}; write values of one kind")
    match sorts[0]:
        case "number":
            return _unified_numbers(values, dialect)
        case "time":
            return _unified_times(values, dialect)
    return list(values)


def _unified_numbers(values: Sequence[Value], dialect: Dialect) -> list[Value]:
    terms = [value.term for value in values if value.term]
    if any(term.digits is None or term.scale is None for term in terms):
        return [_unlimited(value) if value.term else value for value in values]
    scale = max(term.scale or 0 for term in terms)
    digits = max(term.whole or 0 for term in terms) + scale
    check_size(digits, scale, dialect)
    decimal = dialect.types.native_type(Kind("decimal", max(digits, dialect.numbers.MIN_CALCULATED_DIGITS, 1), scale))
    kind = Kind("decimal", max(digits, 1), scale)
    unified = []
    for value in values:
        sql = value.sql if value.term is None or value.kind == kind else f"CAST({value.sql} AS {decimal})"
        unified.append(Value(sql, kind, Term(sql, digits, scale, is_cast=True)) if value.term else value)
    return unified


def _unlimited(value: Value) -> Value:
    sql = f"CAST({value.sql} AS NUMERIC)"  # only PostgreSQL has decimals without a limit
    return Value(sql, Kind("decimal"), Term(sql, None, None, is_cast=True))


def _unified_times(values: Sequence[Value], dialect: Dialect) -> list[Value]:
    if all(value.kind is None or value.kind.name == "date" or _is_midnight(value) for value in values):
        return [as_date(value, dialect) if value.kind else value for value in values]
    times = [as_timestamp(value, dialect) if value.kind else value for value in values]
    native, finest = dialect.types.native_type(Kind("timestamp", scale=6)), max(time.fraction for time in times)
    kind = Kind("timestamp", scale=6)
    return [Value(f"CAST({time.sql} AS {native})", kind, fraction=finest) if time.kind else time for time in times]


def _is_midnight(value: Value) -> bool:
    return value.moment is not None and value.moment.time() == dt.time()


def as_date(value: Value, dialect: Dialect) -> Value:
    """Return a date, which is a date already or the literal of a midnight. Raises BadExpression for another time."""
    if value.moment is not None and _is_midnight(value):
        return Value(dialect.names.date_literal(value.moment.date().isoformat()), Kind("date"))
    if value.kind is None or value.kind.name != "date":
        raise BadExpression("a time is no date; write DATE(...) of it")
    return value


def as_timestamp(value: Value, dialect: Dialect) -> Value:
    """Return a time of UTC, without a zone; of a date its midnight."""
    if value.kind is not None and value.kind.name in ("date", "timestamptz"):
        native = dialect.types.native_type(Kind("timestamp", scale=6))
        return Value(f"CAST({value.sql} AS {native})", Kind("timestamp", scale=6), fraction=value.fraction)
    return value


def fraction_digits(kind: Kind) -> int:
    """Return the most digits of a second that a date or time has."""
    if kind.name == "date":
        return 0
    return 6 if kind.scale is None else kind.scale


def of_kind(value: Value, kind: Kind, dialect: Dialect) -> Value:
    """Return a value as one of a kind that holds it: an integer, decimal, text, date or timestamp. Raises BadExpression if it may not."""
    match kind.name:
        case "integer" | "decimal" if value.term:
            scale = 0 if kind.name == "integer" else kind.scale or 0
            if value.term.scale is None or value.term.scale > scale:
                has = "any number of" if value.term.scale is None else f"up to {value.term.scale}"
                raise BadExpression(f"it has {has} digits after the point, and {kind} has {scale}; write ROUND(..., {scale})")
            return value
        case "text" if value.sort == "text":
            return value
        case "date" if value.sort == "time":
            return as_date(value, dialect)
        case "timestamp" if value.sort == "time":
            time = as_timestamp(value, dialect)
            if (digits := time.fraction) > fraction_digits(kind):
                raise BadExpression(f"it has {digits} digits of a second, and {kind} fewer; write the kind timestamp({digits})")
            return time
    raise BadExpression(f"it is {SORTS[value.sort]}, and the kind says {kind}; write a value of that kind, or another kind")


def joined_value(values: Sequence[Value], dialect: Dialect) -> Value:
    """Return texts one after the other; NULL if one is. A number is written with all digits of its scale."""
    return _text(dialect.text.concat([_operand_text(value, dialect) for value in values]))


def _operand_text(value: Value, dialect: Dialect) -> str:
    match value.sort:
        case "text":
            return value.sql
        case "number" if value.term and value.term.scale is not None and value.kind:
            written = Kind("decimal", value.term.digits, value.term.scale)
            return dialect.canonical.canonical_text(written, value.sql, value.kind)
    raise BadExpression(
        f"|| joins texts and numbers, and {SORTS[value.sort]} is neither; write CASE or COALESCE, or a part such as YEAR(...)"
    )


def function_value(name: str, values: Sequence[Value], counts: Sequence[int], texts: Sequence[str], dialect: Dialect) -> Value:
    """Return the result of a function: of ``values``, with numbers and texts that were written as literals. Raises BadExpression."""
    first, text = values[0], dialect.text
    match name:
        case "ROUND" | "ABS":
            return _of_number(name, _expect(first, "number", name), counts, dialect)
        case "DATE":
            return _date_of(_expect(first, "time", name), dialect)
        case "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND":
            return _part_of(name, _expect(first, "time", name), dialect)
    c = _expect(first, "text", name).sql
    match name:
        case "UPPER":
            return _text(text.upper(c))
        case "LOWER":
            return _text(text.lower(c))
        case "TRIM":
            return _text(text.trim(c))
        case "LEFT":
            return _text(text.left(c, counts[0]))
        case "REPLACE":
            return _text(text.replace(c, texts[0], texts[1]))
        case "SUBSTRING":
            return _text(f"SUBSTRING({c}, {', '.join(str(count) for count in counts)})")
        case "LENGTH":
            return number_value(Term(text.length(c), LENGTH_DIGITS, 0), dialect)
    raise AssertionError(name)


def _expect(value: Value, sort: str, name: str) -> Value:
    if value.sort != sort:
        raise BadExpression(f"{name}() takes {SORTS[sort]}, and this is {SORTS[value.sort]}")
    return value


def _text(sql: str) -> Value:
    return Value(sql, Kind("text"))


def _of_number(name: str, value: Value, counts: Sequence[int], dialect: Dialect) -> Value:
    term = value.term
    assert term
    if name == "ABS":
        return Value(f"ABS({value.sql})", value.kind, Term(f"ABS({value.sql})", term.digits, term.scale, is_cast=True))
    digits = counts[0]
    if term.scale is None or term.whole is None:
        raise BadExpression("ROUND() takes a number of which it is known how many digits it has")
    if digits >= term.scale:
        return value
    rounded = Term(f"ROUND({value.sql}, {digits})", term.whole + 1 + digits, digits)
    return number_value(rounded, dialect)


def _canonical_time(value: Value, dialect: Dialect) -> str:
    assert value.kind
    if value.kind.name == "date":
        return dialect.canonical.canonical_text(Kind("date"), value.sql, value.kind)
    return dialect.canonical.canonical_text(Kind("timestamp", scale=6), value.sql, value.kind)


def _date_of(value: Value, dialect: Dialect) -> Value:
    assert value.kind
    if value.kind.name == "date":
        return value
    written = _canonical_time(value, dialect)
    date = f"CAST({dialect.text.left(written, 10)} AS {dialect.types.native_type(Kind('date'))})"
    return Value(_of_common_era(written, date, dialect), Kind("date"))


def _part_of(name: str, value: Value, dialect: Dialect) -> Value:
    assert value.kind
    first, count = PARTS[name]
    if first > len("2024-02-29") and value.kind.name == "date":
        raise BadExpression(f"{name}() takes a time, and this is a date")
    written = _canonical_time(value, dialect)
    part = f"SUBSTRING({written}, {first}, {count})"
    number = dialect.types.native_type(Kind("decimal", max(count, dialect.numbers.MIN_CALCULATED_DIGITS), 0))
    sql = _of_common_era(written, f"CAST({part} AS {number})", dialect)
    return Value(sql, Kind("decimal", count, 0), Term(sql, count, 0, Decimal(0), Decimal(10**count - 1), is_cast=True))


def _of_common_era(written: str, sql: str, dialect: Dialect) -> str:
    """Return SQL of a part of a time; NULL for a zero date, and for years before 1 and after 9999."""
    is_date = f"{dialect.text.like(written, DATE_FORM)} AND NOT ({dialect.text.like(written, ZERO_DATES)})"
    return f"CASE WHEN {is_date} THEN {sql} END"
