"""Portable filters drawn by Hypothesis, each with its meaning in plain Python: which rows it selects, by SQL's three-valued logic."""

from __future__ import annotations

import datetime as dt
import operator
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from dialects import Kind

Row = dict[str, Any]
Value = Callable[[Row], Any]

NOW = dt.datetime(2024, 3, 31, 13, 14, 15, 160017)
"""The clock to which ``now`` is bound."""

COLUMNS: tuple[tuple[str, Kind], ...] = (
    ("id", Kind("integer")), ("n", Kind("integer")), ("u", Kind("integer", unsigned=True)),
    ("d", Kind("decimal", 10, 2)), ("e", Kind("decimal", 18, 6)), ("x", Kind("float64")), ("flag", Kind("boolean")),
    ("s", Kind("text")), ("r", Kind("text")), ("c", Kind("char", 8)), ("day", Kind("date")), ("at", Kind("timestamp", scale=6)),
    ("zoned", Kind("timestamptz", scale=6)),
)  # fmt: skip
"""The columns of the table."""

TEXTS = [
    "", " ", "a", "A", "a ", "aa", "ab", "abc", "b", "z", "Z", "\u00e4", "a\u0308", "\u00c4", "ß", "ss", "draft", "Draft", "draft ", "%",
    "_", "\\", "!", "a%b", "a_b", "a\\b", "a!b", "'", "it's", '"', "😀", "é", "日本", "a\nb", "\t", "İ", "i", "NULL", "\x01", "\x7f", "0",
]  # fmt: skip
INTEGERS = [0, 1, -1, 2, 5, 7, 10, 24, 70, 127, 128, 255, 256, 1999, 2024, 2**31, -(2**31), 2**63 - 1, -(2**63)]
UNSIGNED = [0, 1, 2, 5, 24, 70, 2**31, 2**32, 2**63, 2**64 - 1]
CENTS = [Decimal(text) for text in ("0", "0.01", "-0.01", "1", "1.5", "2.50", "5", "9.99", "10", "99999999.99", "-99999999.99", "70", "24")]
MILLIONTHS = [Decimal(text) for text in ("0", "0.000001", "-0.000001", "1", "1.5", "2.5", "5", "9.990001", "999999999999.999999", "24")]
DOUBLES = [0.0, -0.0, 0.1, 0.1 + 0.2, 0.3, 1.0, -1.5, 5.0, 1e15, 123456.789, 2.0**53, 1e22, 1e-7, 5e-324, -1e300]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 30), dt.date(2024, 3, 31),
        dt.date(2024, 4, 1), dt.date(9999, 12, 31)]  # fmt: skip
TIMES = [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 23, 59, 59, 999999), dt.datetime(2024, 3, 1), dt.datetime(2024, 3, 31),
         dt.datetime(2024, 3, 31, 2, 30), NOW, NOW.replace(microsecond=0), NOW - dt.timedelta(days=7), dt.datetime(2024, 4, 1),
         dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]  # fmt: skip
INSTANTS = [time for time in TIMES if 1970 < time.year < 2038] + [dt.datetime(1970, 1, 2), dt.datetime(2037, 12, 31, 23, 59, 59, 999999)]
POOLS: dict[str, Sequence[Any]] = {
    "n": INTEGERS, "u": UNSIGNED, "d": CENTS, "e": MILLIONTHS, "x": DOUBLES, "flag": [True, False], "s": TEXTS, "r": TEXTS,
    "c": [text for text in TEXTS if not text.endswith(" ") and len(text) <= 8], "day": DAYS, "at": TIMES, "zoned": INSTANTS,
}  # fmt: skip


def rows(count: int = 60) -> list[Row]:
    """Return rows of the table, the same each time; every value of each pool occurs, if there are enough rows, and NULL."""
    source = random.Random(7)
    drawn = {name: [None, *source.sample(list(pool), len(pool)), *source.choices([None, *pool], k=count)] for name, pool in POOLS.items()}
    return [{"id": i, **{name: values[i] for name, values in drawn.items()}} for i in range(count)]


@dataclass(frozen=True)
class Filter:
    """A filter as it is written, and what it yields for a row: True, False, or None for unknown."""

    text: str
    holds: Callable[[Row], bool | None]

    def selects(self, table: Sequence[Row]) -> set[int]:
        """Return the ids of the selected rows."""
        return {row["id"] for row in table if self.holds(row) is True}


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _apply(function: Callable[[Any, Any], Any], left: Value, right: Value) -> Callable[[Row], Any]:
    """Return a function of a row that is None where an operand is."""

    def found(row: Row) -> Any:
        a, b = left(row), right(row)
        return None if a is None or b is None else function(a, b)

    return found


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _compared(operand: st.SearchStrategy[tuple[str, Value]], other: st.SearchStrategy[tuple[str, Value]]) -> st.SearchStrategy[Filter]:
    """Comparisons of an operand with another, in either order, and BETWEEN and IN with several of them."""

    def compare(parts: tuple[tuple[str, Value], str, tuple[str, Value], bool]) -> Filter:
        left, op, right, swapped = parts
        if swapped:
            left, right = right, left
        return Filter(f"{left[0]} {op} {right[0]}", _apply(COMPARE[op], left[1], right[1]))

    def between(parts: tuple[tuple[str, Value], tuple[str, Value], tuple[str, Value], bool]) -> Filter:
        (c, value), low, high, negated = parts
        found = _all(_apply(operator.ge, value, low[1]), _apply(operator.le, value, high[1]))
        return _maybe_not(f"{c} {{}}BETWEEN {low[0]} AND {high[0]}", found, negated)

    return st.tuples(operand, st.sampled_from(sorted(COMPARE)), other, st.booleans()).map(compare) | st.tuples(
        operand, other, other, st.booleans()
    ).map(between)


def _listed(operand: st.SearchStrategy[tuple[str, Value]], literal: st.SearchStrategy[tuple[str, Value]]) -> st.SearchStrategy[Filter]:
    def listed(parts: tuple[tuple[str, Value], list[tuple[str, Value]], bool]) -> Filter:
        (c, value), literals, negated = parts
        found = _any(*(_apply(operator.eq, value, one) for _, one in literals))
        return _maybe_not(f"{c} {{}}IN ({', '.join(text for text, _ in literals)})", found, negated)

    return st.tuples(operand, st.lists(literal, min_size=1, max_size=4), st.booleans()).map(listed)


def _maybe_not(form: str, found: Callable[[Row], bool | None], negated: bool) -> Filter:
    text = form.replace("{}", "NOT " if negated else "")
    return Filter(text, _not(found) if negated else found)


def _not(found: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    def negation(row: Row) -> bool | None:
        value = found(row)
        return None if value is None else not value

    return negation


def _all(*found: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    def conjunction(row: Row) -> bool | None:
        values = [one(row) for one in found]
        return False if False in values else None if None in values else True

    return conjunction


def _any(*found: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    return _not(_all(*(_not(one) for one in found)))


def _column(*names: str, read: Callable[[Any], Any] = lambda value: value) -> st.SearchStrategy[tuple[str, Value]]:
    def column(name: str) -> tuple[str, Value]:
        return name, lambda row: None if row[name] is None else read(row[name])

    return st.sampled_from(names).map(column)


def _literal(pool: Sequence[Any], write: Callable[[Any], str], read: Callable[[Any], Any]) -> st.SearchStrategy[tuple[str, Value]]:
    return st.sampled_from(pool).map(lambda value: (write(value), lambda _: read(value)))


# text: compared by the bytes of its UTF-8


def _bytes(text: str) -> bytes:
    return text.encode()


def _texts() -> st.SearchStrategy[Filter]:
    columns, literals = _column("s", "r", "c", read=_bytes), _literal(TEXTS, _quote, _bytes)
    return _compared(columns, literals) | _compared(columns, columns) | _listed(columns, literals) | _likes() | _likes()


def _likes() -> st.SearchStrategy[Filter]:
    wildcards = st.sampled_from("%_").map(lambda one: (one, True))
    plain = st.sampled_from(["%", "_", "a", "A", "b", "!", "\\", "ä", "a\u0308", "😀", "ß", "\n", " ", "draft"]).map(
        lambda text: (text, False)
    )

    def like(drawn: tuple[str, list[tuple[str, bool]], str, bool]) -> Filter:
        name, parts, escape, negated = drawn
        written, regex = "", ""
        for text, is_wildcard in parts:
            written += text if is_wildcard else "".join(escape + one if one in ("%", "_", escape) else one for one in text)
            regex += {"%": ".*", "_": "."}[text] if is_wildcard else re.escape(text)
        pattern = re.compile(regex, re.DOTALL)
        return _maybe_not(
            f"{name} {{}}LIKE {_quote(written)} ESCAPE {_quote(escape)}",
            lambda row: None if row[name] is None else pattern.fullmatch(row[name]) is not None,
            negated,
        )

    parts = st.lists(wildcards | plain, max_size=5)
    return st.tuples(st.sampled_from(["s", "r", "c"]), parts, st.sampled_from(["!", "\\", "~"]), st.booleans()).map(like)


# numbers


def _numbers() -> st.SearchStrategy[Filter]:
    columns = _column("n", "u", "d", "e", read=Decimal)
    pool = [
        *map(Decimal, INTEGERS),
        *map(Decimal, UNSIGNED),
        *CENTS,
        *MILLIONTHS,
        Decimal("0.005"),
        Decimal("-1.0000005"),
        Decimal(10) ** 30,
    ]
    literals = _literal(pool, lambda value: f"{value:f}", lambda value: value)
    small = _literal([Decimal(2), Decimal("-0.5"), Decimal(3), Decimal("10.25")], lambda value: f"{value:f}", lambda value: value)

    def calculate(op: str, function: Callable[[Any, Any], Any]) -> Callable[[tuple[Any, Any]], tuple[str, Value]]:
        return lambda parts: (f"({parts[0][0]} {op} {parts[1][0]})", _apply(function, parts[0][1], parts[1][1]))

    def sums(left: st.SearchStrategy[Any], right: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Value]]:
        both = st.tuples(left, right)
        return both.map(calculate("+", operator.add)) | both.map(calculate("-", operator.sub))

    def products(left: st.SearchStrategy[Any], right: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Value]]:
        return st.tuples(left, right).map(calculate("*", operator.mul))

    plain = sums(columns, columns | small)
    calculated = (
        plain
        | sums(plain, columns)
        | products(plain, small)
        | products(_column("n", "d", "e", read=Decimal), _column("d", "e", read=Decimal))
    )
    negative = columns.map(lambda column: (f"-{column[0]}", _apply(lambda a, _: -a, column[1], lambda _: 0)))
    floats = _literal(
        [*map(Decimal, DOUBLES[1:-2]), Decimal("0.1"), Decimal("0.3"), Decimal(10) ** 30],
        lambda v: f"{v:.20f}"[:38],
        lambda v: float(f"{v:.20f}"[:38]),
    )
    return (
        _compared(columns, literals)
        | _compared(columns, columns)
        | _listed(columns, literals)
        | _compared(calculated | negative, literals | _column("n", "d", "e", read=Decimal))
        | _compared(_column("x"), floats)
        | _listed(_column("x"), floats)
    )


# times


def _midnight(value: dt.date) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _times() -> st.SearchStrategy[Filter]:
    columns = _column("day", "at", "zoned", read=_midnight)
    days = _literal(DAYS, lambda day: f"DATE '{day}'", _midnight)
    moments = _literal(TIMES, lambda time: f"TIMESTAMP '{time.isoformat(' ', 'microseconds')}'", _midnight)
    berlin = dt.timezone(dt.timedelta(hours=2))
    zoned = _literal(TIMES[1:-1], lambda time: f"timestamp '{time.replace(tzinfo=dt.UTC).astimezone(berlin).isoformat()}'", _midnight)
    clock: st.SearchStrategy[tuple[str, Value]] = st.sampled_from([("now", lambda _: NOW), ("today", lambda _: _midnight(NOW.date()))])
    units = {"second": 1, "minutes": 60, "hour": 3600, "days": 86400, "week": 604800}

    def shift(parts: tuple[tuple[str, Value], str, str, int]) -> tuple[str, Value]:
        (text, value), op, unit, count = parts
        sign = 1 if op == "+" else -1
        by = dt.timedelta(seconds=sign * count * units[unit])
        return f"{text} {op} INTERVAL '{count}' {unit}", _apply(lambda time, _: _shifted(time, by), value, lambda _: 0)

    def shifted(operand: st.SearchStrategy[tuple[str, Value]]) -> st.SearchStrategy[tuple[str, Value]]:
        return st.tuples(operand, st.sampled_from("+-"), st.sampled_from(sorted(units)), st.integers(0, 60)).map(shift)

    literals = days | moments | zoned | clock
    return (
        _compared(columns, literals)
        | _compared(columns, columns)
        | _listed(columns, literals)
        | _compared(columns | shifted(columns), clock | shifted(clock))
    )


def _shifted(time: dt.datetime, by: dt.timedelta) -> Any:
    """Return a time later by an interval, beyond the years that Python knows as the first or last moment."""
    try:
        return time + by
    except OverflowError:
        return dt.datetime.max if by > dt.timedelta() else dt.datetime.min


# truth, NULL, and conditions of conditions


def _truths() -> st.SearchStrategy[Filter]:
    literals = _literal([True, False], lambda value: str(value).upper(), bool)
    compared = st.tuples(st.sampled_from(["=", "<>"]), literals).map(
        lambda parts: Filter(f"flag {parts[0]} {parts[1][0]}", _apply(COMPARE[parts[0]], lambda row: row["flag"], parts[1][1]))
    )
    return compared | _listed(_column("flag"), literals) | st.just(Filter("flag", lambda row: row["flag"]))


def _nulls() -> st.SearchStrategy[Filter]:
    def is_null(parts: tuple[str, bool]) -> Filter:
        name, negated = parts
        return Filter(f"{name} IS {'NOT ' if negated else ''}NULL", lambda row: (row[name] is None) != negated)

    return st.tuples(st.sampled_from(sorted(POOLS)), st.booleans()).map(is_null)


def _joined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    def junction(word: str, combine: Any) -> Callable[[list[Filter]], Filter]:
        return lambda parts: Filter("(" + f" {word} ".join(one.text for one in parts) + ")", combine(*(one.holds for one in parts)))

    several = st.lists(inner, min_size=2, max_size=3)
    negated = inner.map(lambda one: Filter(f"NOT ({one.text})", _not(one.holds)))
    true = inner.map(lambda one: Filter(f"({one.text}) IS TRUE", lambda row: one.holds(row) is True))
    not_true = inner.map(lambda one: Filter(f"({one.text}) IS NOT TRUE", lambda row: one.holds(row) is not True))
    return several.map(junction("AND", _all)) | several.map(junction("OR", _any)) | negated | true | not_true


def filters() -> st.SearchStrategy[Filter]:
    """All filters of the portable language over the table's columns."""
    return st.recursive(_texts() | _numbers() | _times() | _texts() | _truths() | _nulls(), _joined, max_leaves=4)
